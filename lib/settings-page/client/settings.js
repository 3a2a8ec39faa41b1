// Adds dialogs, forms without a reload, copy buttons, times in the viewer's time zone and refreshing lists. Everything also works
// without this module.

const TICK_MS = 1000
/** Number of refreshes at one per second; later ones follow every five seconds. */
const QUICK_READS = 15
const PATIENCE_MS = 1000

/** @type {(selector: string, root?: ParentNode) => HTMLElement[]} */
const all = (selector, root = document) =>
  [...root.querySelectorAll(selector)].filter((each) => each instanceof HTMLElement)
const status = /** @type {HTMLElement} */ (document.querySelector('[data-status]'))
const words = status.dataset

/** @type {(text: string | undefined) => void} */
function say(text) {
  status.textContent = text ?? ''
}

/** Clears the message after a moment, so the same words are announced again the next time. @type {(text: string | undefined) => void} */
function sayBriefly(text) {
  say(text)
  setTimeout(say, 2 * PATIENCE_MS, '')
}

/** Returns `true` if a page is for another organization, because the session changed in another tab. @type {(page: Document) => boolean} */
const isForeign = (page) =>
  page.querySelector('[data-status]')?.getAttribute('data-organization') !== words.organization

// --- New content ---

/** @type {(root: ParentNode) => void} */
function enhance(root) {
  for (const time of root.querySelectorAll('time')) localize(time)
  for (const each of all('[data-copy], [data-all]', root)) each.hidden = false
  for (const list of all('[data-types]', root)) addTypeTools(list)
  for (const button of all('[data-add]', root)) addLines(button)
  for (const live of all('[data-live=yes]', root)) addPause(live)
  countSelected()
  // Hidden but not removed, because pressing Enter in a field uses it.
  for (const button of all('.ba-filters > button', root)) button.hidden = true
  // Long actions continue by themselves.
  for (const part of all('[data-continue] form', root))
    if (part instanceof HTMLFormElement) void send(part, null)
  addRoles(root)
}

// The narrow layout shows rows as lists, for which some browsers drop the table roles.
const ROLES = {
  table: 'table',
  thead: 'rowgroup',
  tbody: 'rowgroup',
  tr: 'row',
  td: 'cell',
  'th[scope=col]': 'columnheader',
  'th[scope=row]': 'rowheader',
}

/** @type {(root: ParentNode) => void} */
function addRoles(root) {
  for (const [selector, role] of Object.entries(ROLES))
    for (const each of all(selector, root)) each.setAttribute('role', role)
}

/** Returns the document's language, which the host's layout may have set; `undefined` unless it is a language tag. @type {() => string | undefined} */
function language() {
  try {
    return Intl.getCanonicalLocales(document.documentElement.lang)[0]
  } catch {
    return undefined
  }
}

/** @type {(time: HTMLTimeElement) => void} */
function localize(time) {
  const at = new Date(time.dateTime)
  const lang = language()
  /** @type {Intl.DateTimeFormatOptions} */
  const minute = { month: 'short', day: 'numeric', hour: 'numeric', minute: '2-digit' }
  const exact = at.toLocaleString(lang, { year: 'numeric', ...minute, timeZoneName: 'short' })
  const isCell = time.closest('td') !== null
  const ago = relative(at, lang, isCell)
  // Table rows link to a page with the exact time. Elsewhere it is visible, not only a tooltip. Cells are too narrow for zones like GMT+5:30.
  time.title = at.toLocaleString(lang, { dateStyle: 'medium', timeStyle: 'long' })
  if (time.closest('.ba-log')) time.textContent = exact
  else if (!isCell) time.textContent = [exact, ago].filter(Boolean).join(' · ')
  else if (ago) time.textContent = ago
  else if (time.hasAttribute('data-day'))
    time.textContent = at.toLocaleDateString(lang, { dateStyle: 'medium' })
  else time.textContent = at.toLocaleString(lang, { ...minute, hourCycle: 'h23' })
}

/** Returns `undefined` for a time more than 14 days away, or more than a day ago in lists. @type {(at: Date, lang: string | undefined, isCell: boolean) => string | undefined} */
function relative(at, lang, isCell) {
  const seconds = (at.getTime() - Date.now()) / 1000
  const format = new Intl.RelativeTimeFormat(lang, { numeric: 'auto', style: isCell ? 'narrow' : 'long' })
  const size = Math.abs(seconds)
  if (size < 60) return format.format(Math.round(seconds), 'second')
  if (size < 3600) return format.format(Math.round(seconds / 60), 'minute')
  if (size < 86_400) return format.format(Math.round(seconds / 3600), 'hour')
  if (size < 14 * 86_400 && !(isCell && seconds < 0))
    return format.format(Math.round(seconds / 86_400), 'day')
}

// --- Copying ---

/** @type {(button: HTMLElement) => Promise<void>} */
async function copy(button) {
  const source = button.parentElement?.querySelector('input, code, a')
  if (!source) return
  const id = button.getAttribute('data-copy')
  const text = id || (source instanceof HTMLInputElement ? source.value : (source.textContent ?? ''))
  try {
    await navigator.clipboard.writeText(text)
    sayBriefly(words.copied)
    button.closest('[data-secret]')?.setAttribute('data-secret', 'copied')
  } catch {
    if (source instanceof HTMLInputElement) source.select()
    else getSelection()?.selectAllChildren(source)
  }
}

/** @type {() => boolean} */
const hasOpenSecret = () => document.querySelector('[data-secret=""]') !== null
let isLeaving = false

addEventListener('beforeunload', (event) => {
  if (hasOpenSecret() && !isLeaving) event.preventDefault()
})
// Browsers keep pages for the Back button, and a secret must not be among them.
addEventListener('pagehide', () => {
  for (const secret of all('[data-secret]')) {
    const field = secret.querySelector('input')
    const value = field?.value
    for (const code of all('code')) if (value && code.textContent?.includes(value)) code.textContent = '…'
    secret.remove()
  }
})

// --- Forms ---

/** @type {(form: HTMLFormElement, button: HTMLElement | null) => Promise<void>} */
async function send(form, button) {
  if (form.getAttribute('aria-busy') === 'true') return
  form.setAttribute('aria-busy', 'true')
  button?.setAttribute('aria-busy', 'true')
  const timer = setTimeout(() => say(words.waiting), PATIENCE_MS)
  try {
    const fields = new URLSearchParams(/** @type {any} */ (new FormData(form)))
    fields.set('enhanced', '1')
    const answer = await fetch(form.action, {
      method: 'POST',
      body: fields,
      headers: { 'X-BA-Enhanced': '1' },
    })
    if (answer.status === 401) return say(words.signedOut)
    const text = await answer.text()
    say('')
    show(text, answer.url)
  } catch {
    say(words.failed)
  } finally {
    clearTimeout(timer)
    form.removeAttribute('aria-busy')
    button?.removeAttribute('aria-busy')
  }
}

/** Replaces the page with a form's response. @type {(text: string, url: string) => void} */
function show(text, url) {
  const next = new DOMParser().parseFromString(text, 'text/html')
  const [main, old] = [next.querySelector('.ba-main'), document.querySelector('.ba-main')]
  if (!main || !old) return location.assign(url)
  for (const dialog of all('dialog')) dialog.remove()
  // The focus stays on Stop while a long action continues.
  const isStopping = document.activeElement?.closest('[data-continue]') !== null
  document.title = next.title
  if (url !== location.href) history.pushState(null, '', url)
  shownAt = address()
  old.replaceWith(document.adoptNode(main))
  const nav = next.querySelector('.ba-nav')
  if (nav) document.querySelector('.ba-nav')?.replaceWith(document.adoptNode(nav))
  revealSection()
  reads = 0
  enhance(document)
  const stop = all('[data-continue] a')[0]
  if (isStopping && stop) return stop.focus()
  const focused = all('[data-focus]').find((each) => !each.hidden) ?? document.querySelector('h1')
  if (focused instanceof HTMLElement) focused.focus()
  scrollTo(0, 0)
}

/** Returns the URL without its fragment, because a link to a field of this page loads nothing. @type {() => string} */
const address = () => location.pathname + location.search
let shownAt = address()

/** Scrolls a narrow navigation to the current section. @type {() => void} */
const revealSection = () =>
  document.querySelector('.ba-nav [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' })

addEventListener('popstate', () => {
  if (address() !== shownAt) location.reload()
})

document.addEventListener('submit', (event) => {
  const form = event.target
  if (!(form instanceof HTMLFormElement)) return
  if (form.method === 'post') void send(form, event.submitter)
  else if (form.matches('.ba-filters')) void filter(form)
  else return
  event.preventDefault()
})

// --- Filters that apply on change ---

/** @type {(root: ParentNode) => HTMLFormElement[]} */
const filtersIn = (root) =>
  all('form.ba-filters', root).flatMap((form) => (form instanceof HTMLFormElement ? [form] : []))

document.addEventListener('change', (event) => {
  const form = event.target instanceof Element ? event.target.closest('form') : null
  if (form?.matches('.ba-filters')) form.requestSubmit()
})

let wanted = ''

/** Replaces a filter's list. The form stays, so it keeps the focus. @type {(form: HTMLFormElement) => Promise<void>} */
async function filter(form) {
  const fields = [...new FormData(form)].flatMap(([name, value]) => (value ? [[name, String(value)]] : []))
  const url = [form.getAttribute('action'), new URLSearchParams(fields)].join('?')
  wanted = url
  const answer = await fetch(url).catch(() => null)
  const page = new DOMParser().parseFromString((await answer?.text()) ?? '', 'text/html')
  if (wanted !== url) return
  const [next] = filtersIn(page)
  if (!answer?.ok || isForeign(page) || !next || !form.isConnected) return location.assign(url)
  history.replaceState(null, '', url)
  shownAt = address()
  reads = 0
  while (form.nextSibling) form.nextSibling.remove()
  const clear = form.querySelector('[data-clear]')
  if (clear instanceof HTMLElement) clear.hidden = next.querySelector('[data-clear][hidden]') !== null
  document.querySelector('.ba-heading')?.replaceWith(page.querySelector('.ba-heading') ?? '')
  let last = /** @type {Node} */ (form)
  while (next.nextSibling) {
    const node = document.adoptNode(next.nextSibling)
    last.parentNode?.insertBefore(node, last.nextSibling)
    last = node
  }
  enhance(/** @type {ParentNode} */ (form.parentNode))
  const isEmpty = document.querySelector('.ba-main .ba-empty') !== null
  sayBriefly(isEmpty ? words.nothing : words.filtered)
}

// --- Confirmation dialogs ---

/** @type {(link: HTMLAnchorElement) => Promise<void>} */
async function ask(link) {
  try {
    const answer = await fetch(link.href)
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html')
    const question = page.querySelector('.ba-question')
    const heading = page.querySelector('h1')
    if (!answer.ok || isForeign(page) || !question || !heading) return location.assign(link.href)
    const dialog = document.createElement('dialog')
    const title = document.createElement('h2')
    title.textContent = heading.textContent
    title.tabIndex = -1
    title.id = 'ba-question'
    dialog.setAttribute('aria-labelledby', title.id)
    dialog.append(title, document.adoptNode(question))
    document.querySelector('.ba')?.append(dialog)
    enhance(dialog)
    dialog.addEventListener('close', () => {
      dialog.remove()
      link.focus()
    })
    dialog.showModal()
    title.focus()
  } catch {
    location.assign(link.href)
  }
}

document.addEventListener('click', (event) => {
  if (!(event.target instanceof Element) || event.ctrlKey || event.metaKey || event.shiftKey) return
  const button = event.target.closest('[data-copy]')
  if (button instanceof HTMLElement) return void copy(button)
  const link = event.target.closest('a')
  if (!link) return
  const dialog = link.closest('dialog')
  if (dialog) {
    event.preventDefault()
    dialog.close()
  } else if (link.hasAttribute('data-dialog')) {
    event.preventDefault()
    void ask(link)
  } else if (link.closest('.ba-main') && hasOpenSecret()) {
    // Clicking Done confirms that the secret was stored.
    isLeaving = link.classList.contains('ba-button-main')
  }
})

// --- Dependent fields ---

/** @type {(list: HTMLElement) => void} */
function addTypeTools(list) {
  const fieldset = list.closest('fieldset')
  const update = () => {
    list.hidden = fieldset?.querySelector('input[name=wants][value=some]:checked') === null
    // Disabled fields aren't submitted, so "All events" means all events.
    for (const box of list.querySelectorAll('input')) box.disabled = list.hidden
  }
  for (const radio of fieldset?.querySelectorAll('input[name=wants]') ?? [])
    radio.addEventListener('change', update)
  update()
  for (const tools of all('[data-tools]', list)) tools.hidden = false
  const find = list.querySelector('[data-find]')
  if (!(find instanceof HTMLInputElement)) return
  find.addEventListener('input', () => {
    const words = find.value.toLowerCase().split(/\s+/)
    for (const group of all('[role=group]', list)) {
      const labels = all('label', group)
      for (const label of labels)
        label.hidden = !words.every((word) => label.textContent?.toLowerCase().includes(word))
      group.hidden = labels.every((label) => label.hidden)
    }
  })
  // Enter would submit the form.
  find.addEventListener('keydown', (event) => {
    if (event.key === 'Enter') event.preventDefault()
  })
  for (const button of all('[data-tick]', list)) {
    const isAll = button.getAttribute('data-tick') === 'yes'
    button.addEventListener('click', () => {
      for (const label of all('label', list)) {
        const box = label.querySelector('input')
        if (box && !(isAll && label.hidden)) box.checked = isAll
      }
      countSelected()
    })
  }
}

/** Adds copies of the line before a button. @type {(button: HTMLElement) => void} */
function addLines(button) {
  button.hidden = false
  button.addEventListener('click', () => {
    const line = button.previousElementSibling?.cloneNode(true)
    if (!(line instanceof HTMLElement)) return
    for (const field of line.querySelectorAll('input')) {
      field.value = ''
      field.ariaLabel = (field.ariaLabel ?? '').replace(/\d+/, (number) => String(Number(number) + 1))
    }
    button.before(line)
    line.querySelector('input')?.focus()
  })
}

// --- Checkboxes of several others: all types of a resource, all rows of a list ---

/** @type {(selector: string, root?: ParentNode | null) => HTMLInputElement[]} */
const boxes = (selector, root = document) =>
  /** @type {any} */ ([...(root?.querySelectorAll(selector) ?? [])])
const ALL = '[name=group], [data-all] input'
/** @type {(box: Element) => HTMLInputElement[]} */
const partsOf = (box) => boxes('[name=type], [name=id]', box.closest('[role=group], form'))

/** Checks these boxes exactly while all of theirs are, and shows the number of selected rows on the button that acts on them. @type {() => void} */
function countSelected() {
  for (const box of boxes(ALL)) {
    const parts = partsOf(box)
    box.checked = parts.length > 0 && parts.every((part) => part.checked)
  }
  for (const button of all('[data-count]')) {
    const forms = JSON.parse(button.dataset.count ?? '')
    const count = partsOf(button).filter((part) => part.checked).length
    const rules = new Intl.PluralRules(language())
    const form = count ? (forms[rules.select(count)] ?? forms.other) : forms.none
    button.textContent = form.replace('{0}', count)
  }
}

document.addEventListener('change', ({ target }) => {
  if (target instanceof HTMLInputElement && target.matches(ALL))
    for (const part of partsOf(target)) part.checked = target.checked
  countSelected()
})

// --- Live updates ---

let isPaused = false
let reads = 0

/** @type {(live: HTMLElement) => void} */
function addPause(live) {
  const before = live.previousElementSibling
  if (before?.hasAttribute('data-pause')) return
  before?.querySelector('[data-refresh]')?.remove()
  const button = document.createElement('button')
  button.type = 'button'
  button.className = 'ba-button'
  button.setAttribute('data-pause', '')
  button.textContent = (isPaused ? words.resume : words.pause) ?? ''
  button.addEventListener('click', () => {
    isPaused = !isPaused
    button.textContent = (isPaused ? words.resume : words.pause) ?? ''
  })
  live.before(button)
}

setInterval(async () => {
  const live = document.querySelector('[data-live=yes]')
  if (
    !live ||
    isPaused ||
    document.hidden ||
    document.querySelector('dialog') ||
    live.contains(document.activeElement) ||
    live.querySelector(':checked')
  )
    return
  reads++
  if (reads > QUICK_READS && reads % 5) return
  const url = location.href
  // The referrer is the list with the filter, to which the page's links lead back.
  const answer = await fetch(url, { referrer: document.referrer }).catch(() => null)
  if (!answer?.ok || location.href !== url) return
  const page = new DOMParser().parseFromString(await answer.text(), 'text/html')
  if (isForeign(page)) return location.reload()
  const next = page.querySelector('[data-live]')
  if (!next || !live.isConnected || live.contains(document.activeElement) || live.querySelector(':checked'))
    return
  live.replaceWith(document.adoptNode(next))
  enhance(next)
  if (next.getAttribute('data-live') === 'yes') return
  for (const button of all('[data-pause]')) button.remove()
  // A delivery's actions depend on its state.
  const acts = document.querySelector('.ba-heading .ba-acts')
  const present = page.querySelector('.ba-heading .ba-acts')
  if (acts?.contains(document.activeElement)) return
  acts?.remove()
  if (present) document.querySelector('.ba-heading')?.append(document.adoptNode(present))
}, TICK_MS)

enhance(document)
revealSection()
const first = all('[data-focus]').find((each) => !each.hidden)
if (first) first.focus()
