'use strict'
// Keeps the page up to date. Without this script the page works, too, and is loaded anew every ten seconds.
// What comes as HTML has been escaped by skiff; JSON is shown as text alone.
const root = document.documentElement, ownTitle = document.title.replace(/^[✔✖] /, '')
const place = root.dataset.place && root.dataset.place + ': ' // which cluster
const byId = id => document.getElementById(id)
root.classList.add('js')

// Times: skew is by how much the clock of skiff is ahead of that of this machine.
let skew = Number(root.dataset.now) - Date.now()

// span is a duration in words, as skiff says it.
function span(s) {
  if (s < 120) return Math.max(s, 0) + ' s'
  if (s < 7200) return Math.floor(s / 60) + ' min'
  if (s < 172800) return Math.floor(s / 3600) + ' h'
  return Math.floor(s / 86400) + ' d'
}

function setText(element, text) {
  if (element && element.textContent !== text) element.textContent = text
}

function setTimes() {
  for (const time of document.querySelectorAll('time')) {
    const s = Math.floor((Date.now() + skew - Date.parse(time.dateTime)) / 1000)
    const past = { age: '', plan: 'now' }[time.className] ?? ' ago'
    setText(time, s < 0 ? 'in ' + span(-s) : past === 'now' ? past : span(s) + past)
  }
}

// morph makes an element like another one, and keeps what is the same in both: with it focus, selection, scroll
// position, what was typed, and what is unfolded.
function morph(old, now) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== now.data) old.data = now.data
    return
  }
  for (const name of old.getAttributeNames()) {
    if (!now.hasAttribute(name) && name !== 'open' && name !== 'aria-expanded') old.removeAttribute(name)
  }
  for (const { name, value } of now.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value)
  }
  morphChildren(old, now)
}

const keyOf = node => node.dataset?.key || node.id || ''

function morphChildren(old, now) {
  const wanted = new Set(Array.from(now.childNodes, keyOf)), keyed = new Map()
  for (const child of [...old.childNodes]) {
    const key = keyOf(child)
    if (key && !wanted.has(key)) child.remove()
    else if (key) keyed.set(key, child)
  }
  let at = old.firstChild
  for (const child of [...now.childNodes]) {
    const key = keyOf(child)
    const same = key ? keyed.get(key) : at && !keyOf(at) && at.nodeName === child.nodeName ? at : null
    keyed.delete(key)
    if (!same) {
      old.insertBefore(document.importNode(child, true), at)
      continue
    }
    if (same === at) at = at.nextSibling
    else old.insertBefore(same, at)
    morph(same, child)
  }
  while (at) {
    const next = at.nextSibling
    at.remove()
    at = next
  }
}

// Panels: those on screen are fetched anew when a version that they follow is another one.
const sections = [...document.querySelectorAll('section[data-src]')], shown = new Map(), onScreen = new Set()
let news = null, fetching = false, again = false

const observer = new IntersectionObserver(entries => {
  for (const e of entries) e.isIntersecting ? onScreen.add(e.target) : onScreen.delete(e.target)
  refresh()
})
for (const section of sections) observer.observe(section)

// steady makes a change that moves neither the focus, nor the selection, nor, in a page that is scrolled, what is at the
// top of the screen. A row that gets another place loses them otherwise.
function steady(change) {
  const selection = getSelection(), { anchorNode, anchorOffset, focusNode, focusOffset } = selection
  const focus = document.activeElement, topOf = element => element.getBoundingClientRect().top
  const anchor = scrollY > 0 && [...document.querySelectorAll('main h2,main tr')].find(e => topOf(e) >= 0)
  const before = anchor && topOf(anchor)
  change()
  if (focus !== document.activeElement && focus.isConnected) focus.focus({ preventScroll: true })
  if (anchorNode?.isConnected && focusNode.isConnected && selection.anchorNode !== anchorNode) {
    selection.setBaseAndExtent(anchorNode, Math.min(anchorOffset, lengthOf(anchorNode)), focusNode,
      Math.min(focusOffset, lengthOf(focusNode)))
  }
  if (anchor?.isConnected) scrollBy(0, topOf(anchor) - before)
}

const lengthOf = node => node.length ?? node.childNodes.length

async function refresh() {
  if (fetching || !news) return again = true
  fetching = true
  again = false
  for (const section of sections) {
    const version = section.dataset.follows.split(' ').map(name => news.versions[name]).join(' ')
    if (document.hidden || !onScreen.has(section) || shown.get(section) === version) continue
    const src = location.origin + section.dataset.src // without the token, which the URL of the page may have
    try {
      const answer = await fetch(src + (src.includes('?') ? '&' : '?') + 'fragment=1')
      if (!answer.ok && answer.status !== 404) continue
      if (!src.endsWith(section.dataset.src)) continue // another filter has been chosen
      const now = new DOMParser().parseFromString(await answer.text(), 'text/html').body
      steady(() => morphChildren(section, now))
      shown.set(section, version)
    } catch { // no answer: the stream says so
    }
  }
  fetching = false
  setState()
  setTimes()
  if (again) refresh()
}

// The filter works as one types, and the URL is that of what is shown.
let typing = 0

function choose() {
  const form = byId('filter'), section = form.closest('section')
  const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value))
  history.replaceState(null, '', location.origin + '/debug/?' + query + '#owners')
  section.dataset.src = '/debug/owners?' + query
  shown.delete(section)
  refresh()
}

addEventListener('input', event => {
  if (event.target.form !== byId('filter')) return
  clearTimeout(typing)
  typing = setTimeout(choose, event.target.nodeName === 'SELECT' ? 0 : 150)
})

// What the page says of itself: live, or since when it is not.
let heard = Date.now(), problem = '' // why there are no news

function setState() {
  root.classList.toggle('lost', !!problem)
  const age = span(Math.round((Date.now() - heard) / 1000))
  const kind = problem ? 'warn' : news ? news.banner.well ? 'good' : 'bad' : ''
  byId('live').className = problem && 'warn'
  setText(byId('live'), problem ? 'Last update ' + age + ' ago: ' + problem + '.' :
    !news ? 'Connecting.' : polling ? 'Updated every 10 s.' : 'Live.')
  if (!kind) return
  const symbol = { good: '✔ ', bad: '✖ ', warn: '? ' }[kind], banner = byId('banner')
  const text = problem ? problem + ' since ' + new Date(heard + skew).toISOString().slice(11, 19) + ' UTC' :
    news.banner.text
  if (banner && banner.textContent !== symbol + text) steady(() => banner.replaceChildren(symbol + text))
  if (banner) banner.className = kind
  document.title = symbol + (banner || problem ? place + text : ownTitle)
  if (news && !problem) setText(byId('role'), news.role || '')
  if (byId('icon').href !== byId('icon').dataset[kind]) byId('icon').href = byId('icon').dataset[kind]
}

function lose(why) {
  problem = why
  setState()
}

function take(latest) {
  news = latest
  heard = Date.now()
  problem = ''
  skew = Date.parse(news.time) - heard
  if (news.page !== root.dataset.page && performance.now() > 30000) return location.reload() // another version of skiff
  for (const time of document.querySelectorAll('time[data-live]')) time.dateTime = news[time.dataset.live] || time.dateTime
  setState()
  refresh()
}

// News: browsers have six connections to a server at most, so of several tabs one has the stream, and tells the others.
const silence = 'skiff does not answer', me = Math.random(), tabs = new BroadcastChannel('skiff')
let source = null, polling = false, timer = 0

function connect() {
  clearTimeout(timer)
  if (document.hidden) return
  if (polling) return poll()
  source?.close()
  source = new EventSource(location.origin + '/debug/stream')
  source.onmessage = event => hear(JSON.parse(event.data))
  source.addEventListener('bye', () => {
    disconnect()
    polling = true
    poll()
  })
  source.onerror = () => {
    lose(silence)
    tabs.postMessage({ lost: silence })
    if (source?.readyState === EventSource.CLOSED) poll() // it was refused; the answer says why
  }
}

function disconnect() {
  clearTimeout(timer)
  source?.close()
  source = null
}

function hear(latest) {
  take(latest)
  tabs.postMessage({ from: me, news: latest })
}

async function poll() {
  disconnect()
  try {
    const answer = await fetch(location.origin + '/debug/stream?format=json')
    if (answer.ok) hear(await answer.json())
    else lose('skiff refuses this page (' + answer.status + '); load it anew')
  } catch {
    lose(silence)
  }
  if (!document.hidden) timer = setTimeout(polling ? poll : connect, polling ? 10000 : 3000)
}

// listen asks the other tabs for their news before it connects.
function listen() {
  disconnect()
  if (document.hidden) return
  tabs.postMessage({ ask: me })
  timer = setTimeout(connect, 100 + 200 * Math.random())
}

tabs.onmessage = ({ data }) => {
  const leads = source || polling
  if (data.ask && leads && news) tabs.postMessage({ from: me, news })
  if (data.lost && !leads) lose(data.lost)
  if (data.gone && !leads) listen()
  if (!data.news) return
  if (leads && data.from > me) return // this tab stays the one that has the stream
  polling = false
  disconnect()
  take(data.news)
}

function leave() {
  const led = source || polling
  polling = false
  disconnect()
  if (led) tabs.postMessage({ gone: true })
}

addEventListener('pagehide', leave)
addEventListener('pageshow', event => { if (event.persisted) listen() })
document.addEventListener('visibilitychange', () => document.hidden ? leave() : listen())
setInterval(() => {
  if (document.hidden) return
  const silent = Date.now() - heard, patience = polling ? 25000 : 12000
  if (silent > patience) {
    lose(problem || silence)
    if (silent % 10000 < 1000) connect() // a connection may be dead without an error
  }
  setState()
  setTimes()
}, 1000)

// Keys.
function step(by) {
  const rows = [...document.querySelectorAll('main tbody tr')].map(row => row.querySelector('summary,a,button:not(.tap)'))
    .filter(Boolean)
  const at = rows.findIndex(handle => handle.closest('tr').contains(document.activeElement))
  rows[Math.min(Math.max(at + by, 0), rows.length - 1)]?.focus()
}

const keys = {
  j: () => step(1),
  k: () => step(-1),
  '/': () => byId('search')?.focus(),
  f: () => document.querySelector('a[data-f]')?.click(),
  '?': () => byId('help').open || byId('help').showModal(),
}

addEventListener('keydown', event => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.nodeName)
  if (typing && event.key === 'Escape') event.target.blur()
  if (typing || event.ctrlKey || event.altKey || event.metaKey || !Object.hasOwn(keys, event.key)) return
  event.preventDefault()
  keys[event.key]()
})

addEventListener('click', async event => {
  const button = event.target
  if (button.className === 'keys') return keys['?']()
  if (button.className === 'tap') return button.setAttribute('aria-expanded', button.closest('tr').toggleAttribute('open'))
  if (button.className !== 'copy') return
  const code = button.previousElementSibling
  getSelection().selectAllChildren(code) // to be seen, and for pages that may not use the clipboard
  try {
    await navigator.clipboard.writeText(code.textContent)
  } catch {
    document.execCommand('copy')
  }
  setText(button, 'copied')
  setTimeout(() => setText(button, 'copy'), 2000)
})

listen()
setTimes()
