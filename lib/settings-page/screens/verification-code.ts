import { type Html, html } from '../html.ts'
import type { Texts } from '../texts.ts'
import { codeBlock } from '../views/elements.ts'

/** Renders code that verifies a webhook, in each language. */
export function verificationCode(t: Texts, headerPrefix: string): Html {
  const header = `${headerPrefix}-Signature`
  const blocks = [
    ['JavaScript', node(header)],
    ['Python', python(header)],
    ['PHP', php(header)],
    ['Go', go(header)],
    ['Ruby', ruby(header)],
  ] as const
  return html`<p class="ba-lead">${t`Verify the raw request body, before you parse it. Respond with a 2xx status within 10 seconds.`}</p>
${blocks.map(([name, code], index) =>
  index === 0
    ? html`<details open><summary>${name}</summary>${codeBlock(t, code, name)}</details>`
    : html`<details><summary>${name}</summary>${codeBlock(t, code, name)}</details>`,
)}`
}

function node(header: string): string {
  return `import { createHmac, timingSafeEqual } from 'node:crypto'

function verifySignature(rawBody, headers, secret) {
  const parts = (headers['${header.toLowerCase()}'] ?? '').split(',').map((part) => part.split('='))
  const time = parts.find(([name]) => name === 't')?.[1] ?? ''
  const expected = createHmac('sha256', secret).update(\`\${time}.\`).update(rawBody).digest()
  const isRecent = Math.abs(Date.now() / 1000 - Number(time)) <= 300
  return isRecent && parts.slice(0, 16).some(([name, value = '']) => {
    const given = Buffer.from(value, 'hex')
    return name === 'v1' && given.length === expected.length && timingSafeEqual(given, expected)
  })
}`
}

function python(header: string): string {
  return `import hashlib, hmac, time

def verify_signature(raw_body: bytes, headers, secret: str) -> bool:
    parts = [part.partition("=")[::2] for part in headers.get("${header}", "").split(",")[:16]]
    sent = next((value for name, value in parts if name == "t"), "")
    if not (sent.isdecimal() and len(sent) < 12):
        return False
    expected = hmac.new(secret.encode(), f"{sent}.".encode() + raw_body, hashlib.sha256).hexdigest()
    is_recent = abs(time.time() - int(sent)) <= 300
    return is_recent and any(name == "v1" and hmac.compare_digest(value.encode(), expected.encode()) for name, value in parts)`
}

function php(header: string): string {
  const key = `HTTP_${header.toUpperCase().replaceAll('-', '_')}`
  return `function verify_signature(string $secret): bool {
    $body = file_get_contents('php://input');
    $header = array_slice(explode(',', $_SERVER['${key}'] ?? ''), 0, 16);
    $parts = array_map(fn($part) => array_pad(explode('=', $part, 2), 2, ''), $header);
    $time = array_column($parts, 1, 0)['t'] ?? '';
    $expected = hash_hmac('sha256', "$time.$body", $secret);
    if (abs(time() - (int) $time) > 300) return false;
    foreach ($parts as [$name, $value]) {
        if ($name === 'v1' && hash_equals($expected, $value)) return true;
    }
    return false;
}`
}

function go(header: string): string {
  return `func verifySignature(r *http.Request, body []byte, secret string) bool {
	var sent string
	var signatures []string
	for _, part := range strings.Split(r.Header.Get("${header}"), ",") {
		switch name, value, _ := strings.Cut(part, "="); name {
		case "t":
			sent = value
		case "v1":
			signatures = append(signatures, value)
		}
	}
	seconds, err := strconv.ParseInt(sent, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return false
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(sent + "."))
	mac.Write(body)
	expected := hex.EncodeToString(mac.Sum(nil))
	for _, signature := range signatures {
		if hmac.Equal([]byte(signature), []byte(expected)) {
			return true
		}
	}
	return false
}`
}

function ruby(header: string): string {
  return `require 'openssl'

def valid_signature?(raw_body, headers, secret)
  parts = headers.fetch('${header}', '').split(',').first(16).map { |part| part.split('=', 2) }
  sent = parts.find { |name, _| name == 't' }&.last.to_s
  return false unless sent.match?(/\\A\\d{1,11}\\z/) && (Time.now.to_i - sent.to_i).abs <= 300

  expected = OpenSSL::HMAC.hexdigest('SHA256', secret, "#{sent}.#{raw_body}")
  parts.any? { |name, value| name == 'v1' && OpenSSL.secure_compare(value.to_s, expected) }
end`
}
