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
  if (old.className === 'tap') return // says whether its row is unfolded
  if (old.textContent === 'copied' && old.title === now.title) return // for two seconds
  const folded = old.nodeName === 'DETAILS' && old.dataset.is === now.dataset.is // or not, as the reader has it
  for (const name of old.getAttributeNames()) {
    if (!now.hasAttribute(name) && name !== 'open') old.removeAttribute(name)
  }
  for (const { name, value } of now.attributes) {
    if (old.getAttribute(name) !== value && !(folded && name === 'open')) old.setAttribute(name, value)
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
let news = null, fetching = false, again = false, partly = '' // a part that was refused

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
  partly = ''
  for (const section of sections) {
    const version = section.dataset.follows.split(' ').map(name => news.versions[name]).join(' ')
    if (document.hidden || !onScreen.has(section) || shown.get(section) === version) continue
    const src = location.origin + section.dataset.src // without the token, which the URL of the page may have
    try {
      const answer = await fetch(src + (src.includes('?') ? '&' : '?') + 'fragment=1')
      if (!answer.ok && answer.status !== 404) {
        partly = 'A part is not up to date: skiff answered ' + answer.status + '.'
        continue
      }
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
  list(new URLSearchParams([...new FormData(byId('filter'))].filter(([, value]) => value)))
}

// list shows the objects that a query chooses.
function list(query) {
  const section = byId('owners').closest('section')
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
  byId('live').className = problem || partly ? 'warn' : ''
  setText(byId('live'), problem ? 'Last update ' + age + ' ago: ' + problem + '.' :
    !news ? 'Connecting.' : partly || (polling ? 'Updated every 10 s.' : 'Live.'))
  if (!kind) return
  const symbol = { good: '✔ ', bad: '✖ ', warn: '? ' }[kind], banner = byId('banner')
  const text = problem ? problem + ' since ' + new Date(heard + skew).toISOString().slice(11, 19) + ' UTC' :
    news.banner.text
  if (banner && banner.textContent !== symbol + text) steady(() => banner.replaceChildren(symbol + text))
  if (banner) banner.className = kind
  announce(kind, text)
  document.title = symbol + (banner || problem ? place + text : ownTitle)
  if (news && !problem) setText(byId('role'), news.role || '')
  if (byId('icon').href !== byId('icon').dataset[kind]) byId('icon').href = byId('icon').dataset[kind]
}

// announce has a screen reader say the banner when its kind changes, and other news of it twice a minute at most: the
// number of objects may change each second.
let said = '', saidAt = 0

function announce(kind, text) {
  if (said === '') said = kind // has been read with the page
  if (kind === said && (kind !== 'bad' || Date.now() - saidAt < 30000)) return
  said = kind
  saidAt = Date.now()
  setText(byId('said'), text)
}

function lose(why) {
  problem = why
  setState()
}

function take(latest) {
  news = latest
  heard = Date.now()
  problem = ''
  const ahead = Date.parse(news.time) - heard
  if (ahead > skew || skew - ahead > 15000) skew = ahead // news may be some seconds old
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
    .filter(handle => handle?.checkVisibility())
  const focus = document.activeElement, above = row => focus.compareDocumentPosition(row) & Node.DOCUMENT_POSITION_PRECEDING
  let at = rows.findIndex(handle => handle.closest('tr').contains(focus))
  if (at < 0) at = rows.filter(above).length - (by > 0 ? 1 : 0)
  rows[Math.min(Math.max(at + by, 0), rows.length - 1)]?.focus()
}

// rowOrPage is the row that has the focus, or else the page.
const rowOrPage = () => document.activeElement.closest('main tr') ?? document

// goTo shows a panel from its title on.
function goTo(id) {
  const title = byId(id), fold = title?.closest('details')
  if (!title) return location.assign(location.origin + '/debug/#' + id)
  if (fold) fold.open = true
  title.focus() // for j, and for a screen reader
  title.scrollIntoView()
}

function goBack() {
  if (location.pathname !== '/debug/') (document.querySelector('a[rel=up]') ?? document.querySelector('.brand')).click()
}

const keys = {
  j: () => step(1),
  k: () => step(-1),
  '/': () => byId('search')?.focus(),
  f: () => document.querySelector('a[data-f]')?.click(),
  o: () => [...rowOrPage().querySelectorAll('a[aria-expanded],.tap')].find(e => e.checkVisibility())?.click(),
  c: () => rowOrPage().querySelector('.copy')?.click(),
  u: goBack,
  Escape: goBack,
  '?': () => byId('help').open || byId('help').showModal(),
}
const places = { o: 'owners', t: 'timeline', q: 'queue', w: 'watches' }
let going = 0 // until when a key names a place, after g

addEventListener('keydown', event => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.nodeName)
  if (typing && event.key === 'Escape') event.target.blur()
  if (typing || event.ctrlKey || event.altKey || event.metaKey || byId('help').open) return
  const place = going > event.timeStamp && Object.hasOwn(places, event.key) && places[event.key]
  const chip = /^[1-9]$/.test(event.key) && document.querySelectorAll('.chips a')[event.key - 1]
  going = event.key === 'g' ? event.timeStamp + 2000 : 0
  if (place) goTo(place)
  else if (chip) chip.click()
  else if (Object.hasOwn(keys, event.key)) keys[event.key]()
  else return
  event.preventDefault()
})

addEventListener('click', async event => {
  const button = event.target
  if (button.className === 'keys') return keys['?']()
  if (button.className === 'tap') return button.setAttribute('aria-expanded', button.closest('tr').toggleAttribute('open'))
  const link = button.closest?.('nav a,[data-follows~=owners] a[aria-expanded]')
  if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    if (link.hash !== '#owners' || link.closest('nav')) return goTo(link.hash.slice(1))
    event.preventDefault() // the row unfolds where it is
    return list(new URL(link.href).searchParams)
  }
  if (button.className !== 'copy') return
  const line = button.title || button.previousElementSibling.textContent, label = button.textContent
  try {
    await navigator.clipboard.writeText(line)
  } catch { // a page that may not use the clipboard
    addEventListener('copy', copying => {
      copying.clipboardData.setData('text/plain', line)
      copying.preventDefault()
    }, { once: true })
    document.execCommand('copy')
  }
  if (label === 'copied') return
  setText(button, 'copied')
  byId('said').textContent = 'copied: ' + line
  setTimeout(() => setText(button, label), 2000)
})

listen()
setState()
setTimes()
