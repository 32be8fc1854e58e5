// Proves that dist/ and the API types are what the sources give: builds and
// generates both into a temporary folder and compares, byte for byte.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const web = join(import.meta.dirname, '..')
const temporary = mkdtempSync(join(tmpdir(), 'assent-dist-'))
const wrong = []

function run(command, ...args) {
  const { status, stdout, stderr } = spawnSync(join(web, 'node_modules', '.bin', command), args, { cwd: web, encoding: 'utf8' })
  if (status !== 0) throw new Error(`${command} ended with ${status}:\n${stdout}${stderr}`)
}

function list(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name).slice(folder.length + 1))
    .sort()
}

try {
  const built = join(temporary, 'dist')
  run('vite', 'build', '--outDir', built, '--emptyOutDir', '--logLevel', 'error')
  const dist = join(web, 'dist')
  for (const name of new Set([...list(dist), ...list(built)])) {
    const read = (folder) => (list(folder).includes(name) ? readFileSync(join(folder, name)) : undefined)
    const [committed, fresh] = [read(dist), read(built)]
    if (!committed) wrong.push(`dist/${name} is missing`)
    else if (!fresh) wrong.push(`dist/${name} is left over`)
    else if (!committed.equals(fresh)) wrong.push(`dist/${name} differs`)
  }

  const types = join(temporary, 'api.gen.ts')
  run('openapi-typescript', join('..', 'openapi.yaml'), '-o', types)
  if (!readFileSync(types).equals(readFileSync(join(web, 'src', 'api.gen.ts')))) wrong.push('src/api.gen.ts differs from ../openapi.yaml')
} finally {
  rmSync(temporary, { recursive: true, force: true })
}

if (wrong.length > 0) {
  console.error(`${wrong.join('\n')}\nRun \`npm run gen && npm run build\` and commit what changed.`)
  process.exit(1)
}
console.log('dist/ and src/api.gen.ts are up to date')
