// Search runs in a worker, and browsers refuse workers to pages that are opened as files. There, a hidden frame does the
// same work; from a server, nothing changes.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      frame.title = "search"
      document.body.appendChild(frame)
      const inner = frame.contentWindow
      this.frame = frame
      this.receive = event => {
        if (event.source !== inner) return
        const told = new MessageEvent("message", { data: event.data })
        this.dispatchEvent(told)
        if (this.onmessage) this.onmessage(told)
      }
      window.addEventListener("message", this.receive)
      this.ready = new Promise((done, failed) => {
        const page = inner.document
        page.open()
        page.write("<!doctype html><html><body></body></html>")
        page.close()
        const first = page.createElement("script")
        first.textContent = `
          postMessage = data => parent.postMessage(data, "*")
          importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise((loaded, failed) => {
            const script = document.createElement("script")
            script.src = url
            script.onload = loaded
            script.onerror = failed
            document.body.appendChild(script)
          })), Promise.resolve())`
        page.body.appendChild(first)
        const work = page.createElement("script")
        work.src = url
        work.onload = done
        work.onerror = failed
        page.body.appendChild(work)
      })
    }

    postMessage(data) {
      const told = new MessageEvent("message", { data: structuredClone(data) })  // the worker changes what it is told
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(told))
    }

    terminate() {
      window.removeEventListener("message", this.receive)
      this.frame.remove()
    }
  }
}
