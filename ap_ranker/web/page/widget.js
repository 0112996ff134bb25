// The search in a page of another site. The script puts an element <ap-ranker-search> behind itself, unless it stands in
// the head or the page has one. It sets no cookie, and keeps nothing in the browser but the last question, with the page's
// place in the history, so that whoever comes back to the page finds it again. Of a strict policy it needs only script-src
// and connect-src with the server's address. All texts are set as text, but for the HTML that the server made of an answer.
(() => {
  const NAME = "ap-ranker-search";
  const LONGEST_SENTENCE = 300; // characters, as the server accepts
  const ATTRIBUTES = ["lang", "contact", "question"]; // of the element; of the script with data-
  const script = document.currentScript;
  const server = new URL(".", script.src);
  if (customElements.get(NAME)) return;

  // A page that wants trusted types has to allow this name.
  const trusted = window.trustedTypes?.createPolicy("ap-ranker", { createHTML: (html) => html });

  const STYLE = `
    :host {
      --accent: var(--ap-ranker-accent, light-dark(#0b57d0, #8ab4f8));
      --on-accent: var(--ap-ranker-on-accent, light-dark(#fff, #121417));
      --ink: var(--ap-ranker-ink, light-dark(#16181d, #eceef1));
      --card: var(--ap-ranker-card, light-dark(#fff, #1c1f24));
      --line: var(--ap-ranker-line, #7d8490);
      --radius: var(--ap-ranker-radius, 0.6rem);
      display: block; font-family: var(--ap-ranker-font, inherit); line-height: 1.5; text-align: start;
    }
    :host([hidden]), [hidden] { display: none !important; }
    * { box-sizing: border-box; }
    p, ol { margin: 0; padding: 0; }
    label { display: block; font-weight: 600; margin-block-end: 0.3rem; }
    .line { display: flex; gap: 0.5rem; }
    input, button { font: inherit; min-height: 2.75rem; border-radius: var(--radius); padding: 0.4rem 0.9rem; border: 1px solid var(--line); background: var(--card); color: var(--ink); }
    input { flex: 1; min-width: 0; }
    button { cursor: pointer; }
    button.main { background: var(--accent); border-color: var(--accent); color: var(--on-accent); font-weight: 600; }
    button[aria-pressed="true"] { border-color: var(--accent); box-shadow: inset 0 0 0 1px var(--accent); font-weight: 600; }
    button.link { border: 0; background: none; color: var(--accent); padding-inline: 0; text-align: start; overflow-wrap: anywhere; }
    :focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
    .status:not(:empty) { margin-block: 0.8rem 0.5rem; font-weight: 600; }
    ol { list-style: none; display: grid; gap: 0.6rem; }
    h2 { margin: 0; font-size: 1.1em; }
    details, .contact { background: var(--card); color: var(--ink); border: 1px solid var(--line); border-radius: var(--radius); padding: 0 1rem; }
    .contact { display: inline-flex; align-items: center; min-height: 2.75rem; margin-block-start: 0.6rem; }
    .contact, .text a { color: var(--accent); }
    summary { cursor: pointer; font-weight: 600; padding-block: 0.6rem; min-height: 2.75rem; overflow-wrap: anywhere; }
    mark { background: rgb(255 140 0 / 0.22); color: inherit; }
    .text { overflow-wrap: anywhere; }
    .text p { white-space: pre-wrap; }
    .text > * + * { margin-block-start: 0.6rem; }
    .text ul, .text ol { display: block; list-style: revert; padding-inline-start: 1.5rem; }
    .text pre { white-space: pre-wrap; }
    .text > ul { list-style: disc; }
    .text .table { overflow-x: auto; }
    .text table { border-collapse: collapse; }
    .text th, .text td { border: 1px solid var(--line); padding: 0.2rem 0.6rem; text-align: start; overflow-wrap: normal; }
    .judge { display: flex; flex-wrap: wrap; gap: 0.5rem; align-items: center; margin-block: 0.8rem; }
    .sentence { display: flex; flex-wrap: wrap; gap: 0.5rem; align-items: end; }
    .sentence label { flex: 1 1 12rem; }
    .sentence input { display: block; width: 100%; }
    .otherwise { margin-block-end: 0.8rem; }
    .otherwise ul { list-style: none; margin: 0; padding: 0; }
  `;

  const make = (tag, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };

  const beginning = (html) => {
    const text = parsed(html).textContent.trim();
    return text.length > 80 ? `${text.slice(0, 80)} …` : text;
  };

  const parsed = (html) => new DOMParser().parseFromString(trusted ? trusted.createHTML(html) : html, "text/html").body;

  // Where a question is sent; any other address than these could be a program.
  const carrying = (question, address) => {
    const text = encodeURIComponent(question);
    if (/^https?:\/\//i.test(address)) return address.replaceAll("{question}", () => text);
    return /^[\w.+-]+@[\w.-]+$/.test(address) ? `mailto:${address}?subject=${text}&body=${text}` : "";
  };

  // What the site's own scripts have there stays.
  const keep = (question) => {
    const state = history.state ?? {};
    if (Object.getPrototypeOf(state) === Object.prototype) history.replaceState({ ...state, [NAME]: question }, "");
  };

  class Search extends HTMLElement {
    #length; // what length.js has
    #mark; // as marks.js does
    #otherwise; // as otherwise.js does
    #typed; // what typed.js has
    #words; // as languages.js loads them
    #latest = 0; // a slow answer must not replace that to a later question
    #input;
    #status = make("p", { className: "status" });
    #list = make("ol");
    #contact;
    #visit = crypto.getRandomValues(new Uint32Array(2)).join("-"); // tells only that two clicks are of one person

    async connectedCallback() {
      if (this.shadowRoot) return;
      const root = this.attachShadow({ mode: "open" });
      const sheet = new CSSStyleSheet(); // which a policy against styles in the page lets through
      sheet.replaceSync(STYLE);
      root.adoptedStyleSheets = [sheet];
      try {
        const modules = ["languages", "length", "marks", "otherwise", "typed"].map((name) => import(new URL(`page/${name}.js`, server)));
        const [{ choose, load }, length, { mark }, { otherwise }, typed] = await Promise.all(modules);
        this.#mark = mark;
        this.#otherwise = otherwise;
        this.#typed = typed;
        const tags = [this.lang, document.documentElement.lang, ...navigator.languages];
        this.#words = await load(choose(tags.filter(Boolean)));
        this.#length = length;
      } catch (error) {
        console.error(`${NAME}: ${server} does not answer pages of ${location.origin}. Are they among its sites?`, error);
        return;
      }
      this.#build(root);
      const question = (history.state ?? {})[NAME];
      if (typeof question !== "string") return;
      this.#input.value = question;
      this.ask(question);
    }

    #build(root) {
      const { limit, MAX_CHARACTERS } = this.#length;
      const { texts, filled, language, direction } = this.#words;
      this.#input = make("input", { id: "question", type: "text", dir: "auto", required: true, autocomplete: "off", enterKeyHint: "search" });
      const note = make("p");
      note.setAttribute("aria-live", "polite");
      this.#status.setAttribute("role", "status");
      limit(this.#input, note, filled(texts.cut, { count: MAX_CHARACTERS }));
      this.#contact = make("a", { className: "contact", hidden: true, target: "_blank", rel: "noopener noreferrer", textContent: texts.contact });
      const label = make("label", { htmlFor: "question", textContent: this.getAttribute("question") || texts.question });
      const line = make("div", { className: "line" }, this.#input, make("button", { className: "main", textContent: texts.search }));
      const form = make("form", {}, label, line);
      form.setAttribute("role", "search");
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        const question = this.#input.value.trim();
        if (!question) return;
        keep(question);
        this.ask(question);
      });
      root.append(make("div", { lang: language, dir: direction }, form, note, this.#status, this.#list, this.#contact));
    }

    async ask(question) {
      const { texts, filled } = this.#words;
      const mine = ++this.#latest;
      this.#list.replaceChildren();
      this.#contact.hidden = true;
      this.#status.textContent = texts.searching;
      try {
        const result = await this.post("search", { question });
        if (mine !== this.#latest) return;
        const { outcome, answers, kind, parts } = result;
        const found = { answer: () => filled(texts.found, { count: answers.length }), maybe: () => texts.perhaps, none: () => texts.none };
        if (parts.length) {
          this.#status.textContent = texts.typed[kind];
          this.#list.append(...parts.flatMap((part) => [this.#typed.heading(this.#words, part), ...this.items(part, this.#typed.shown(part))]));
        } else {
          this.#status.textContent = this.#typed.sentence(this.#words, result) || found[outcome]();
          this.#list.append(...this.items({ question, outcome }, answers));
        }
        const isAnswered = parts.length ? parts.every((part) => part.outcome === "answer") : outcome === "answer";
        this.#contact.href = this.#contactFor(question);
        this.#contact.hidden = (isAnswered && kind !== "person") || !this.#contact.getAttribute("href");
      } catch (error) {
        if (mine === this.#latest) this.#status.textContent = error.message;
      }
    }

    #contactFor(question) {
      return carrying(question, this.getAttribute("contact") || "");
    }

    items({ question, outcome }, answers) {
      return answers.map((answer, row) => this.item(question, answer, outcome === "answer" && !row));
    }

    item(question, answer, open) {
      const { texts } = this.#words;
      const text = make("div", { className: "text" }, ...parsed(answer.html).childNodes);
      for (const block of text.children) block.dir = "auto";
      const summary = make("summary", { dir: "auto", textContent: answer.question || answer.source?.title || beginning(answer.html) });
      this.#mark([summary, text], answer.words);
      const thanks = make("span");
      thanks.setAttribute("role", "status");
      const buttons = ["yes", "no"].map((name) => make("button", { type: "button", className: name, textContent: texts[name] }));
      const wayOn = make("div", { className: "otherwise", hidden: true });
      const send = (more) => this.post("feedback", { question, id: answer.id, receipt: answer.receipt, visit: this.#visit, ...more });
      buttons.forEach((button, row) => {
        button.setAttribute("aria-pressed", "false");
        button.addEventListener("click", async () => {
          const helped = button.getAttribute("aria-pressed") === "true" ? null : !row; // a second click takes it back
          try {
            await send({ helped });
            buttons.forEach((each) => each.setAttribute("aria-pressed", String(helped !== null && each === button)));
            wayOn.hidden = helped !== false;
            const others = this.#othersThan(wayOn.closest("details"));
            const parts = wayOn.hidden ? [] : [this.#sentence(thanks, send), ...this.#otherwise(texts, others, this.#contactFor(question))];
            wayOn.replaceChildren(...parts);
            thanks.textContent = helped === null ? texts.takenBack : texts.thanks;
          } catch (error) {
            thanks.textContent = error.message;
          }
        });
      });
      return make("li", {}, make("details", { open }, summary, text, make("div", { className: "judge" }, ...buttons, thanks), wayOn));
    }

    // A box for what somebody was looking for.
    #sentence(note, send) {
      const { texts } = this.#words;
      const input = make("input", { type: "text", dir: "auto", maxLength: LONGEST_SENTENCE, required: true, autocomplete: "off" });
      const label = make("label", {}, texts.lookingFor, input);
      const form = make("form", { className: "sentence" }, label, make("button", { textContent: texts.send }));
      form.addEventListener("submit", async (event) => {
        event.preventDefault();
        const comment = input.value.trim();
        if (!comment) return;
        try {
          await send({ helped: false, comment });
          form.remove();
          note.textContent = texts.commented;
        } catch (error) {
          note.textContent = error.message;
        }
      });
      return form;
    }

    #othersThan(own) {
      const others = [...this.#list.querySelectorAll("details")].filter((entry) => entry !== own && !entry.querySelector(".no[aria-pressed=true]"));
      return others.map((entry) => {
        const summary = entry.querySelector("summary");
        const open = () => {
          entry.open = true;
          summary.focus();
        };
        return { title: summary.textContent, open };
      });
    }

    async post(name, body) {
      const { texts, filled } = this.#words;
      let response;
      try {
        const headers = { "Content-Type": "application/json" };
        response = await fetch(new URL(`api/${name}`, server), { method: "POST", headers, credentials: "omit", body: JSON.stringify(body) });
      } catch {
        throw new Error(texts.unreachable);
      }
      if (!response.ok) throw new Error(texts.errors[response.status] || filled(texts.refused, { status: String(response.status) }));
      return response.json();
    }
  }

  customElements.define(NAME, Search);
  if (document.querySelector(NAME) || script.closest("head")) return;
  const element = document.createElement(NAME);
  for (const name of ATTRIBUTES) if (script.dataset[name]) element.setAttribute(name, script.dataset[name]);
  script.after(element);
})();
