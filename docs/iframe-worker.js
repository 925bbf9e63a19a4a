/* The search of the site runs in a Worker. Browsers refuse Workers to pages that are opened from disk; there, this one runs
   the script of the Worker in a hidden frame of the page instead. */
"use strict";

if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = async (...scripts) => {
        for (const script of scripts) await load(inside, script);
      };
      this.inside = inside;
      this.ready = load(inside, new URL(address, document.baseURI).href);
    }

    async postMessage(data) {
      await this.ready;
      this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }));
    }

    terminate() {
      this.inside.frameElement.remove();
    }
  };

  /** Load a script into a window; the promise is kept when it has run. */
  function load(inside, address) {
    return new Promise((resolve, reject) => {
      const script = inside.document.createElement("script");
      script.src = address;
      script.onload = resolve;
      script.onerror = () => reject(new Error(`${address} cannot be loaded`));
      inside.document.head.append(script);
    });
  }
}
