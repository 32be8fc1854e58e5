// The fingerprint of everything that dist/ is built from. The build writes it
// to dist/.sources, and a Go test computes it again from the tree, so that a
// dist/ that was not rebuilt fails there too, without Node.
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const single = ['index.html', 'package-lock.json', 'package.json', 'scripts/sources.mjs', 'tsconfig.json', 'vite.config.ts']
const folders = ['public', 'src']
// Tests do not reach the bundle, so changing one does not make dist/ stale.
const isTest = (name) => /\.test\.tsx?$/.test(name)

export function sourceFiles(root) {
  const found = [...single]
  for (const folder of folders) {
    for (const entry of readdirSync(join(root, folder), { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue
      const path = join(entry.parentPath ?? entry.path, entry.name)
      found.push(path.slice(root.length + 1).replaceAll('\\', '/'))
    }
  }
  return found.filter((name) => !isTest(name)).sort((a, b) => (a < b ? -1 : 1))
}

export function fingerprint(root) {
  const sum = createHash('sha256')
  for (const name of sourceFiles(root)) {
    const content = createHash('sha256').update(readFileSync(join(root, name))).digest('hex')
    sum.update(`${content}  ${name}\n`)
  }
  return `sha256:${sum.digest('hex')}\n`
}
