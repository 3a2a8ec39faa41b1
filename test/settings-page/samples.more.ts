import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { createBusinessApi } from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { toMarkup } from '../../lib/settings-page/html.ts'
import { callCode, type ExampleCall } from '../../lib/settings-page/screens/call-code.ts'
import { verificationCode } from '../../lib/settings-page/screens/verification-code.ts'
import { createTexts } from '../../lib/settings-page/texts.ts'
import { signWebhook } from '../../lib/webhooks.ts'
import { decode, ORGANIZATION, setUp } from './_page.ts'

// Every sample of the page is run as it is shown, in each language that is installed. Go takes seconds to compile.

const t = createTexts('en', {})

/** The file of a language, and the program that runs the file. */
const LANGUAGES = {
  curl: ['call.sh', 'sh', []],
  JavaScript: ['call.mjs', process.execPath, []],
  Python: ['call.py', 'python3', []],
  PHP: ['call.php', 'php', []],
  Go: ['main.go', 'go', ['run']],
  Ruby: ['call.rb', 'ruby', []],
} as const

type Language = keyof typeof LANGUAGES

function isInstalled(language: Language): boolean {
  const program = language === 'curl' ? 'curl' : LANGUAGES[language][1]
  return spawnSync(program, [language === 'Go' ? 'version' : '--version']).status === 0
}

/** Runs a program, and returns what it prints. */
async function run(language: Language, code: string, env: Record<string, string>): Promise<string> {
  const [file, program, args] = LANGUAGES[language]
  const directory = await mkdtemp(join(tmpdir(), 'samples-'))
  try {
    const path = join(directory, file)
    await writeFile(path, language === 'PHP' ? `<?php\n${code}` : code)
    const options = { env: { ...process.env, ...env } }
    const { stdout, stderr } = await promisify(execFile)(program, [...args, path], options)
    assert.equal(language === 'curl' ? '' : stderr, '', language)
    return stdout.trim()
  } finally {
    await rm(directory, { recursive: true })
  }
}

function codeOf(markup: string, label: string): string {
  const [, code = ''] = new RegExp(`aria-label="${label}"><code>(.*?)</code>`, 's').exec(markup) ?? []
  return decode(code)
}

for (const language of Object.keys(LANGUAGES) as Language[]) {
  test(`the call in ${language} reads and creates`, {
    skip: !isInstalled(language) && `no ${language}`,
  }, async () => {
    const store = createMemoryStore()
    const api = createBusinessApi(store, { logger: false })
    const under = setUp({ store })
    const { key } = await under.settings.apiKeys.create(ORGANIZATION, {
      name: 'Samples',
      scopes: ['clients:read', 'clients:write'],
    })
    const server = createServer((request, response) => void api(request, response))
    await once(server.listen(0, '127.0.0.1'), 'listening')
    try {
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/v1/clients`
      const call = async (example: ExampleCall): Promise<{ data: unknown }> => {
        const label = language === 'curl' ? 'Example request' : `Example request in ${language}`
        const shown = codeOf(toMarkup(callCode(t, example, key)), label)
        const printed = await run(language, shown, { API_KEY: key })
        return JSON.parse(printed)
      }
      assert.deepEqual((await call({ method: 'GET', url, body: null })).data, [])
      // Every character that a language could read as something else.
      const name = `O'Hara \\ "Söhne" $HOME #{1 + 1} \`id\` %s 🏺`
      const headers = [['Idempotency-Key', 'a-unique-key']] as const
      const example = { method: 'POST', url, body: JSON.stringify({ name }), headers }
      const created = await call(example)
      assert.deepEqual(await call(example), created, 'the same key made another client')
      const { data } = (await call({ method: 'GET', url, body: null })) as {
        data: { business: { name: string } }[]
      }
      assert.deepEqual(
        data.map(({ business }) => business.name),
        [name],
      )
    } finally {
      server.closeAllConnections()
      server.close()
    }
  })
}

/** Programs that call a sample with the secret and the header of the environment, and print 1 or 0 for each header, in a line. */
const VERIFIERS = {
  Go: (code: string) => `package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

${code}

func main() {
	for _, header := range strings.Split(os.Getenv("HEADERS"), "\\n") {
		request := &http.Request{Header: http.Header{"X-Service-Signature": {header}}}
		fmt.Println(verifySignature(request, []byte("{}"), os.Getenv("SECRET")))
	}
}
`,
  Ruby: (code: string) => `${code}
ENV['HEADERS'].split("\\n", -1).each { |header| puts valid_signature?('{}', { 'X-SERVICE-Signature' => header }, ENV['SECRET']) }
puts valid_signature?('{}', {}, ENV['SECRET'])
`,
} as const

for (const language of Object.keys(VERIFIERS) as (keyof typeof VERIFIERS)[]) {
  test(`the verification in ${language} accepts our signature alone`, {
    skip: !isInstalled(language) && `no ${language}`,
  }, async () => {
    const shown = codeOf(toMarkup(verificationCode(t, 'X-SERVICE')), language)
    const now = Math.floor(Date.now() / 1000)
    const secret = 'whsec_current'
    const headers = [
      signWebhook('{}', secret),
      `${signWebhook('{}', 'whsec_other')},${signWebhook('{}', secret).split(',')[1]}`,
      signWebhook('{}', 'whsec_other'),
      signWebhook('[]', secret),
      signWebhook('{}', secret, now - 600),
      ...[
        '',
        ',',
        '=',
        't',
        't=',
        'v1',
        't=1',
        't=x,v1=y',
        't=é,v1=é',
        `t=${now},v1`,
        `t=${'9'.repeat(400)},v1`,
      ],
    ]
    const env = { SECRET: secret, HEADERS: headers.join('\n') }
    const printed = (await run(language, VERIFIERS[language](shown), env)).split('\n')
    assert.deepEqual(printed.slice(0, 2), ['true', 'true'])
    assert.ok(
      printed.length >= headers.length && printed.slice(2).every((line) => line === 'false'),
      printed.join(),
    )
  })
}
