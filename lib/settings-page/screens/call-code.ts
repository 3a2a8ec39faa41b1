import { type Html, html } from '../html.ts'
import type { Texts } from '../texts.ts'
import { codeBlock } from '../views/elements.ts'

/** An API call. */
export interface ExampleCall {
  readonly method: string
  readonly url: string
  /** JSON text; `null` if there is no body. */
  readonly body: string | null
  /** Headers except Authorization and Content-Type. */
  readonly headers?: readonly (readonly [name: string, value: string])[]
}

/**
 * Renders a call in six languages, using only their standard libraries. Programs read the key from the environment, so only the curl
 * command contains it.
 */
export function callCode(t: Texts, call: ExampleCall, key: string): Html {
  const blocks = [
    ['JavaScript', javaScript(call)],
    ['Python', python(call)],
    ['PHP', php(call)],
    ['Go', go(call)],
    ['Ruby', ruby(call)],
  ] as const
  return html`<details open><summary>curl</summary>${codeBlock(t, curl(call, key), t`Example request`)}</details>
${blocks.map(([name, code]) => html`<details><summary>${name}</summary>${codeBlock(t, code, t`Example request in ${name}`)}</details>`)}`
}

/** Returns a call's headers without Authorization. */
function headersOf({ headers = [], body }: ExampleCall): readonly (readonly [name: string, value: string])[] {
  return body === null ? headers : [...headers, ['Content-Type', 'application/json']]
}

function curl(call: ExampleCall, key: string): string {
  const { method, url, body } = call
  const verb = method === (body === null ? 'GET' : 'POST') ? '' : ` -X ${method}`
  const headers = [['Authorization', `Bearer ${key}`] as const, ...headersOf(call)]
  return [
    `curl${verb} ${url}`,
    ...headers.map(([name, value]) => `-H '${name}: ${value}'`),
    ...(body === null ? [] : [`-d '${body.replaceAll("'", "'\\''")}'`]),
  ].join(' \\\n  ')
}

/** Formats a string literal for JavaScript, Python and Go. */
const doubly = (text: string): string => JSON.stringify(text)

/** Formats a string literal for PHP and Ruby without interpolation. */
const singly = (text: string): string => `'${text.replace(/[\\']/g, '\\$&')}'`

function javaScript(call: ExampleCall): string {
  const { method, url, body } = call
  const headers = headersOf(call).map(([name, value]) => `\n    ${doubly(name)}: ${doubly(value)},`)
  return `const response = await fetch(${doubly(url)}, {
  method: ${doubly(method)},
  headers: {
    Authorization: \`Bearer \${process.env.API_KEY}\`,${headers.join('')}
  },${body === null ? '' : `\n  body: ${doubly(body)},`}
})
if (!response.ok) throw new Error(\`\${response.status} \${await response.text()}\`)
console.log(await response.text())`
}

function python(call: ExampleCall): string {
  const { method, url, body } = call
  const headers = headersOf(call).map(([name, value]) => `\n        ${doubly(name)}: ${doubly(value)},`)
  return `import os, urllib.request

request = urllib.request.Request(
    ${doubly(url)},
    method=${doubly(method)},
    headers={
        "Authorization": f"Bearer {os.environ['API_KEY']}",${headers.join('')}
    },${body === null ? '' : `\n    data=${doubly(body)}.encode(),`}
)
with urllib.request.urlopen(request) as response:
    print(response.read().decode())`
}

function php(call: ExampleCall): string {
  const { method, url, body } = call
  const headers = headersOf(call).map(([name, value]) => `, ${singly(`${name}: ${value}`)}`)
  return `$context = stream_context_create(['http' => [
    'method' => ${singly(method)},
    'header' => ['Authorization: Bearer ' . getenv('API_KEY')${headers.join('')}],${body === null ? '' : `\n    'content' => ${singly(body)},`}
    'ignore_errors' => true,
]]);
echo file_get_contents(${singly(url)}, false, $context);`
}

function go(call: ExampleCall): string {
  const { method, url, body } = call
  const headers = headersOf(call).map(
    ([name, value]) => `\n\trequest.Header.Set(${doubly(name)}, ${doubly(value)})`,
  )
  return `package main

import (
	"io"
	"net/http"
	"os"
	"strings"
)

func main() {
	body := strings.NewReader(${doubly(body ?? '')})
	request, err := http.NewRequest(${doubly(method)}, ${doubly(url)}, body)
	if err != nil {
		panic(err)
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("API_KEY"))${headers.join('')}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(os.Stdout, response.Body); err != nil {
		panic(err)
	}
}`
}

function ruby(call: ExampleCall): string {
  const { method, url, body } = call
  const headers = headersOf(call).map(([name, value]) => `\nrequest[${singly(name)}] = ${singly(value)}`)
  const verb = method.slice(0, 1) + method.slice(1).toLowerCase()
  return `require 'net/http'

uri = URI(${singly(url)})
request = Net::HTTP::${verb}.new(uri)
request['Authorization'] = "Bearer #{ENV.fetch('API_KEY')}"${headers.join('')}${body === null ? '' : `\nrequest.body = ${singly(body)}`}
response = Net::HTTP.start(uri.host, uri.port, use_ssl: uri.scheme == 'https') { |http| http.request(request) }
puts response.body`
}
