import { readdirSync, readFileSync } from 'node:fs'
import react from '@vitejs/plugin-react'
import { type Plugin } from 'vite'
import { defineConfig } from 'vitest/config'
// @ts-expect-error a plain script without types, shared with the dist check
import { fingerprint } from './scripts/sources.mjs'

// Every path that is the server's own; the development server passes them on.
const api = [
  '/topics', '/approvals', '/questions', '/policy', '/mcp-servers', '/assistants', '/audit', '/models', '/providers', '/events', '/login', '/session', '/logout',
  '/healthz', '/readyz', '/metrics', '/openapi.yaml', '/docs', '/licenses.txt',
]
const target = process.env.ASSENT_URL ?? 'http://127.0.0.1:8420'

function writeFingerprint(): Plugin {
  return {
    name: 'assent-sources',
    apply: 'build',
    generateBundle() {
      this.emitFile({ type: 'asset', fileName: '.sources', source: fingerprint(import.meta.dirname) as string })
    },
  }
}

/** The licences of everything that is bundled, as most of them demand. */
function writeLicences(): Plugin {
  return {
    name: 'assent-licences',
    apply: 'build',
    generateBundle(_, bundle) {
      const folders = new Set<string>()
      for (const chunk of Object.values(bundle)) {
        if (chunk.type !== 'chunk') continue
        for (const id of Object.keys(chunk.modules)) {
          const found = /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(id.replaceAll('\\', '/').replace(/^\0/, ''))
          if (found) folders.add(found[0])
        }
      }
      const texts = [...folders].map((folder) => {
        const { name, license } = JSON.parse(readFileSync(`${folder}/package.json`, 'utf8')) as { name: string; license?: string }
        const file = readdirSync(folder).find((f) => /^licen[cs]e/i.test(f))
        const text = file ? readFileSync(`${folder}/${file}`, 'utf8') : `Licence: ${license}`
        return `${name}\n\n${text.replaceAll('\r\n', '\n').trim()}\n`
      })
      this.emitFile({ type: 'asset', fileName: 'licenses.txt', source: texts.sort().join(`\n${'-'.repeat(72)}\n\n`) })
    },
  }
}

export default defineConfig({
  plugins: [react(), writeFingerprint(), writeLicences()],
  build: { target: 'es2022', assetsInlineLimit: 0, modulePreload: { polyfill: false }, reportCompressedSize: false, emptyOutDir: true, chunkSizeWarningLimit: 1000 },
  worker: { format: 'es' },
  server: { proxy: Object.fromEntries(api.map((path) => [path, { target, changeOrigin: true }])) },
  test: { environment: 'happy-dom', include: ['src/**/*.test.{ts,tsx}'], restoreMocks: true },
})
