// Installs the clients in a temporary folder, and runs their tests, the examples and the README's code against a server on the
// small model. Needs a built clone, npm, curl and Python 3.9 or newer. SKIP_PYTHON=1 leaves the Python ones out;
// CLIENTS_FOLDER names a folder to install in once and keep.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createServer as createHttp } from 'node:http'
import { tmpdir } from 'node:os'
import { extname, join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Maple, createServer } from '../../../dist/index.js'
import { stageExamples } from './examples.mjs'

const here = fileURLToPath(new URL('.', import.meta.url))
const cases = JSON.parse(readFileSync(join(here, 'cases.json'), 'utf8'))
const kept = process.env.CLIENTS_FOLDER
const work = kept ? resolve(kept) : mkdtempSync(join(tmpdir(), 'maple-clients-'))
const windows = process.platform === 'win32'
const withPython = !process.env.SKIP_PYTHON
const apiKey = 'key of the conformance tests'
const installMinutes = 10
const testMinutes = 3

/** Runs a program in the temporary folder; its output is shown and returned, and what takes too long is ended. */
async function run(command, args, minutes, env = {}) {
  const options = { cwd: work, stdio: ['ignore', 'pipe', 'pipe'], timeout: minutes * 60_000, killSignal: 'SIGKILL' }
  const child = spawn(command, args, { ...options, env: { ...process.env, ...env }, shell: windows })
  let output = ''
  for (const name of ['stdout', 'stderr']) {
    child[name].on('data', (data) => {
      output += data
      process[name].write(data)
    })
  }
  const [code, signal] = await once(child, 'close')
  if (code !== 0) throw new Error(`${command} ${args.join(' ')}: ${signal ?? `exit code ${code}`}`)
  return output
}

async function installPython() {
  await run(windows ? 'python' : 'python3', ['-m', 'venv', 'venv'], installMinutes)
  const packages = [
    '-m',
    'pip',
    'install',
    '--quiet',
    '--no-compile',
    '--disable-pip-version-check',
    '-r',
    'requirements.txt',
  ]
  await run(python, packages, installMinutes)
}

const python = join(work, 'venv', windows ? 'Scripts/python.exe' : 'bin/python')
/** Most clients ask for Node 22; npm brings one where this is older. */
const node =
  Number.parseInt(process.versions.node) >= 22
    ? process.execPath
    : join(work, 'node_modules/node/bin', windows ? 'node.exe' : 'node')
const servers = []
let aborted = 0
let model

/** Serves an app on a free port, counting answers that were cut off; returns its address. */
async function serve(app) {
  const server = createHttp((req, res) => {
    if (req.url === '/aborted') return void res.end(String(aborted))
    res.once('close', () => (aborted += res.writableFinished ? 0 : 1))
    app(req, res)
  }).listen(0, '127.0.0.1')
  servers.push(server)
  await once(server, 'listening')
  return `http://127.0.0.1:${server.address().port}`
}

/** The model, but slow with one question: the answer to it is surely still under way when it is aborted. */
function slowWith(question) {
  return {
    info: model.info,
    prepareChat: (...args) => model.prepareChat(...args),
    tokenizePrompt: (...args) => model.tokenizePrompt(...args),
    runCompletion: (...args) => model.runCompletion(...args),
    async *runChat(prompt, params, options) {
      for await (const event of model.runChat(prompt, params, options)) {
        yield event
        if (prompt.text.includes(question)) await sleep(1000, undefined, { signal: options.signal })
      }
    },
  }
}

try {
  cpSync(here, work, { recursive: true })
  if (!existsSync(join(work, 'node_modules')))
    await run('npm', ['ci', '--loglevel=error', '--no-audit', '--no-fund'], installMinutes)
  if (withPython && !existsSync(python)) await installPython()

  model = await Maple.load('sprout', { cacheFolder: false })
  const url = await serve(createServer(slowWith(cases.slow), { apiKey }))
  const env = {
    SERVER_URL: url,
    SERVER_KEY: apiKey,
    // LiteLLM would fetch its price list at every start.
    LITELLM_LOCAL_MODEL_COST_MAP: 'True',
    PYTHONWARNINGS: 'ignore',
  }

  const failures = []
  const attempt = (promise) => promise.catch((error) => failures.push(error.message))
  for (const name of readdirSync(here)) {
    if (name.endsWith('.test.mjs')) await attempt(run(node, ['--test', '--test-reporter=spec', name], testMinutes, env))
    else if (/^test_.*\.py$/.test(name) && withPython)
      await attempt(run(python, ['-m', 'unittest', '-v', name.replace('.py', '')], testMinutes, env))
  }

  const open = await serve(createServer(model))
  for (const { file, output } of stageExamples(work, open)) {
    const interpreter = { '.mjs': node, '.ts': node, '.py': python, '.sh': 'sh' }[extname(file)]
    if (interpreter === python && !withPython) continue
    console.log(`\n# ${file}`)
    await attempt(
      run(interpreter, [file], testMinutes, { ...env, OPENAI_BASE_URL: `${open}/v1` }).then((text) => {
        if (!(output instanceof RegExp ? output.test(text) : text.includes(output)))
          throw new Error(`${file} did not print ${output}`)
      }),
    )
  }
  if (failures.length > 0) throw new Error(`FAILED:\n${failures.join('\n')}`)
  console.log('All clients and examples work.')
} catch (error) {
  console.error(error.message)
  process.exitCode = 1
} finally {
  for (const server of servers) {
    server.closeAllConnections()
    server.close()
  }
  await model?.dispose()
  if (!kept) rmSync(work, { recursive: true, force: true })
}
