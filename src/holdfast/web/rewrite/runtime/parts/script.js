// Scripts that are made of text while the page runs are changed as the server changes those that it sends: the same
// rewriter as `javascript.py`, which says what it does and why. Tests hold both to the same examples.

const scriptRewriter = (() => {
  const words = (text) => new Set(text.split(" "));
  const NEW_NAMES = { location: "__hf_location", top: "__hf_top", eval: "__hf_eval" };
  const WINDOWS = words("window self globalThis document top parent frames opener");
  const BEFORE_GROUP = words("if while for with switch catch");
  const NOT_OWNERS = words("of super async function class");
  const BEFORE_EXPRESSION = words(
    "return typeof case in of delete void throw new else do instanceof yield await default extends");
  const NOT_BEFORE_OBJECT = words("else do extends");
  const DECLARES = words("var let const");
  const VALUE_WORDS = words("case return typeof void new in of await yield delete throw instanceof else");
  const WORD = /[\w$\u0080-\uffff]/;
  const TOKEN = new RegExp([
    String.raw`"[^"\\\n\r]*(?:\\[^][^"\\\n\r]*)*"?|'[^'\\\n\r]*(?:\\[^][^'\\\n\r]*)*'?`,
    String.raw`(?<comment>\/\/[^\n\r]*|\/\*[^]*?(?:\*\/|$)|<!--[^\n\r]*)`,
    String.raw`(?<slash>\/)`,
    "(?<tick>`)",
    String.raw`(?<open>[({[])`,
    String.raw`(?<close>[)}\]])`,
    String.raw`(?<word>(?<![\w$\\#\u0080-\uffff])(?:location|top|eval|with|postMessage|import|export)(?![\w$\\\u0080-\uffff]))`,
  ].join("|"), "g");
  const REGEX = /\/(?![*/])(?:[^\\/[\n\r]|\\[^\n\r]|\[(?:[^\]\\\n\r]|\\[^\n\r])*\])+\/[a-z]*/y;
  const REGEX_USED = /\s*\.(?:test|exec|source|match)\b/y;
  const TEMPLATE = /[^`\\$]*(?:(?:\\[^]|\$(?!\{))[^`\\$]*)*(`|\$\{)?/y;
  const GAP = /(?:\s|\/\/[^\n\r]*|\/\*[^]*?\*\/)*/y;
  const CLASS = /(?<![\w$.])class\b[^{}();=]*$/;
  const CASE = /(?<![\w$.])(?:case\b[^{}?:]*|default\s*):\s*$/;
  const METHOD = /\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\s*\{/y;
  const ASSIGNS = /=(?![=>])/y;
  const KEY = /\[\s*(["'`])(?:location|top|eval|postMessage)\1\s*\]/y;
  const FIXED_KEY = /\[\s*(?:[0-9]|(["'`])[^"'`\\$]*\1\s*\]|\]|__hf_key\()/y;
  const SOURCE = /(\}\s*=\s*)([a-zA-Z_$][\w$]*(?:\s*\.\s*[a-zA-Z_$][\w$]*)*)\s*?(?=[,;)}\]\n\r]|$)/y;
  const MODULE_GAP = String.raw`(?:\s|\/\*[^]*?\*\/)*`;
  const LITERAL = /"([^"\\\n\r]*)"|'([^'\\\n\r]*)'/y;
  const BARE = new RegExp(String.raw`(?:import|export)${MODULE_GAP}(?=["'])`, "y");
  const CALL = new RegExp(String.raw`import${MODULE_GAP}\(${MODULE_GAP}(?=["'])`, "y");
  const META = new RegExp(String.raw`${MODULE_GAP}\.${MODULE_GAP}meta(?![\w$])`, "y");
  const CALL_END = new RegExp(String.raw`${MODULE_GAP}[,)]`, "y");
  const CLAUSE = /[^"'();=.]*/y;
  const FROM = /(?<![\w$])from\s*$/;
  const NEEDED = /(?<![\w$])(?:location|top|eval|postMessage|import|export)(?![\w$])|(?:window|self|globalThis|document|parent|frames|opener)\s*\[/;
  const ATTRIBUTES = /,\s*\{\s*["']?(?:with|assert)["']?\s*:\s*\{[^{}]*\}\s*,?\s*\}\s*,?\s*$/;
  const ATTRIBUTES_LENGTH_MAX = 200;
  const BACK = 300;
  const METHOD_LENGTH_MAX = 1000;
  const SOURCE_LENGTH_MAX = 200;
  const FROM_LENGTH = 64;
  const PATIENCE = 8;

  function matched(pattern, text, at) {
    pattern.lastIndex = at;
    return pattern.exec(text);
  }

  function bindings(name) {
    return new RegExp(
      String.raw`(?<![\w$.])(?:import|export)\s*(?:[\w$]+\s*,\s*)?(?:\{[^{}]*?(?<![\w$])${name}(?![\w$])|` +
      String.raw`\*\s*as\s+${name}(?![\w$])|(?:(?:default\s+)?(?:async\s+)?(?:var|let|const|function|class)[\s*]+)?` +
      String.raw`${name}(?![\w$]))`);
  }

  class Script {
    constructor(text, isClassic, specifier, to) {
      this.text = text;
      this.specifier = specifier;
      this.to = to;
      this.names = new Set(Object.keys(NEW_NAMES).filter((name) => isClassic || !bindings(name).test(text)));
      this.open = [];
      this.comments = new Map();
      this.pairs = new Map();
      this.owners = new Map();
      this.objects = new Map();
      this.calls = new Set();
      this.withs = new Set();
      this.patterns = new Set();
      this.edits = [];
      this.clauseEnd = 0;
      this.patience = PATIENCE * text.length;
    }

    rewritten() {
      this.scan();
      const order = this.edits.map((edit, index) => [...edit, index])
        .sort((a, b) => a[0] - b[0] || a[1] - b[1] || (a[2] < b[2] ? -1 : a[2] > b[2] ? 1 : 0));
      let at = 0;
      let made = "";
      for (const [start, end, instead] of order) {
        if (start < at) continue;
        made += this.text.slice(at, start) + instead;
        at = end;
      }
      return made + this.text.slice(at);
    }

    scan() {
      const { text } = this;
      let found;
      let at = 0;
      while ((found = matched(TOKEN, text, at)) !== null) {
        const start = found.index;
        const { comment, slash, tick, open, close, word } = found.groups;
        at = start + found[0].length;
        if (open) {
          this.open.push([start, open]);
          if (open === "[") this.index(start);
        } else if (close) {
          const bracket = this.open.pop();
          if (!bracket) continue;
          if (bracket[1] !== "{") this.pairs.set(start, bracket[0]);
          this.closed(bracket[0], start);
          if (bracket[1] === "${") at = this.template(at);
        } else if (word) {
          if (word === "postMessage") this.member(start);
          else if (Object.hasOwn(NEW_NAMES, word)) this.name(start, at, word);
          else if (word === "with") this.within(start, at);
          else this.imported(start, at, word);
        } else if (comment) this.comments.set(at, start);
        else if (slash) at = this.slash(start);
        else if (tick) at = this.template(at);
      }
    }

    edit(start, end, instead) {
      this.edits.push([start, end, instead]);
    }

    isWord(at) {
      return at >= 0 && at < this.text.length && WORD.test(this.text[at]);
    }

    // What stands before `at`, gaps and comments passed over: where it ends, and its last sign or whole word.
    before(at) {
      const { text } = this;
      let end = at;
      while (end && (text.charCodeAt(end - 1) <= 32 || this.comments.has(end))) end = this.comments.get(end) ?? end - 1;
      let start = end;
      while (this.isWord(start - 1)) start -= 1;
      return [end, start < end ? text.slice(start, end) : text.slice(end - 1, end)];
    }

    after(at) {
      return at + matched(GAP, this.text, at)[0].length;
    }

    template(at) {
      const found = matched(TEMPLATE, this.text, at);
      const end = at + found[0].length;
      if (found[1] === "${") this.open.push([end, "${"]);
      return end;
    }

    slash(at) {
      const divides = this.divides(at);
      if (divides || this.patience <= 0) return at + 1;
      const regex = matched(REGEX, this.text, at);
      if (!regex) {
        this.patience -= Math.max(this.text.indexOf("\n", at), at) - at || this.text.length - at;
        return at + 1;
      }
      const end = at + regex[0].length;
      return divides === false || matched(REGEX_USED, this.text, end) ? end : at + 1;
    }

    divides(at) {
      const [end, sign] = this.before(at);
      if (!sign) return false;
      if (WORD.test(sign[0])) return !BEFORE_EXPRESSION.has(sign) || this.text[end - sign.length - 1] === ".";
      if (sign === ")") return !BEFORE_GROUP.has(this.before(this.pairs.get(end - 1) ?? 0)[1]);
      if (sign === "}") return null;
      return "]\"'`".includes(sign) || ["++", "--"].includes(this.text.slice(end - 2, end));
    }

    isObject(given) {
      const around = [];  // this brace, and those that decide on it
      let brace = given;
      while (!this.objects.has(brace)) {
        around.push(brace);
        const [at, sign] = this.before(brace);
        const outer = sign === ":" ? this.outer(at) : null;
        if (sign !== ":") this.objects.set(brace, this.beginsObject(at, sign));
        else if (outer !== null) brace = outer;
        else this.objects.set(brace, !this.isLabel(at));
      }
      const answer = this.objects.get(brace);
      for (const each of around) this.objects.set(each, answer);
      return answer;
    }

    // The brace right before the one word before the colon: what it opens decides if that is a key or a label.
    outer(colonEnd) {
      const [end, word] = this.before(colonEnd - 1);
      const [before, sign] = this.before(end - word.length);
      return sign === "{" && WORD.test(word[0]) ? before - 1 : null;
    }

    // Whether the colon ends the label of a block, or of a case.
    isLabel(colonEnd) {
      if (CASE.test(this.text.slice(Math.max(0, colonEnd - BACK), colonEnd))) return true;
      const [end, word] = this.before(colonEnd - 1);
      if (!word || !WORD.test(word[0])) return false;
      const [, sign] = this.before(end - word.length);
      const isOperand = BEFORE_EXPRESSION.has(sign) && sign !== "else" && sign !== "do";
      return sign === "" || (!isOperand && !"([,?=&|+-!<>*%^~/.".includes(sign));
    }

    beginsObject(at, sign) {
      if (sign === ">") return this.text.slice(at - 2, at) !== "=>";
      if (sign && WORD.test(sign[0]))
        return (BEFORE_EXPRESSION.has(sign) && !NOT_BEFORE_OBJECT.has(sign)) || DECLARES.has(sign);
      return sign !== "" && "([,=?&|+-!<*%^~/".includes(sign);
    }

    isClass(brace) {
      return CLASS.test(this.text.slice(Math.max(0, brace - BACK), brace));
    }

    // -- the expression whose member is named ------------------------------------------------------------------------

    owner(end) {
      const links = [];
      const owner = this.ownerOf(end, links);
      for (const link of links) this.owners.set(link, owner);
      return owner;
    }

    ownerOf(given, links) {
      let [at, start, isOptional, hasCall] = [given, -1, false, false];
      for (;;) {
        let sign;
        [at, sign] = this.before(at);
        if (this.owners.has(at)) {
          const known = this.owners.get(at);
          return known && { start: known.start, isOptional: known.isOptional || isOptional };
        }
        if (sign && WORD.test(sign[0])) {
          start = at - sign.length - (this.text[at - sign.length - 1] === "#" ? 1 : 0);
          const [link, byOptional] = this.link(start);
          if (link < 0) {
            const isBare = at === given;
            if (BEFORE_EXPRESSION.has(sign) || sign[0] <= "9" && sign[0] !== "$" || (isBare && NOT_OWNERS.has(sign)))
              return null;
            return this.from(start, isOptional, hasCall);
          }
          links.push(at);
          at = link;
          isOptional ||= byOptional;
          continue;
        }
        const opened = sign === ")" || sign === "]" ? this.pairs.get(at - 1) ?? -1 : -1;
        if (opened < 0) return null;
        links.push(at);
        const [before, mark] = this.before(opened);
        if (this.text.slice(before - 2, before) === "?.") {
          [at, start, isOptional, hasCall] = [before - 2, opened, true, true];
        } else if (mark === ")" || mark === "]" || (mark && WORD.test(mark[0]) && !this.isKeyword(before, mark))) {
          [at, start, hasCall] = [before, opened, hasCall || this.text[opened] === "("];
        } else if (BEFORE_GROUP.has(mark)) {
          return start >= 0 ? { start, isOptional } : null;
        } else if (mark !== "" && ("}\"'`".includes(mark) || NOT_OWNERS.has(mark))) {
          return null;
        } else {
          return this.from(opened, isOptional, hasCall);
        }
      }
    }

    link(start) {
      const [end, sign] = this.before(start);
      if (sign !== "." || this.text.slice(end - 3, end) === "...") return [-1, false];
      const isOptional = this.text.slice(end - 2, end) === "?.";
      return [end - 1 - (isOptional ? 1 : 0), isOptional];
    }

    isKeyword(end, word) {
      if (!BEFORE_EXPRESSION.has(word) && !BEFORE_GROUP.has(word) && !NOT_OWNERS.has(word)) return false;
      return this.link(end - word.length)[0] < 0;
    }

    from(start, isOptional, hasCall) {
      const [end, sign] = this.before(start);
      if (sign === "new" && this.link(end - sign.length)[0] < 0)
        return hasCall ? { start: end - sign.length, isOptional } : null;
      return ["@", "function", "class"].includes(sign) ? null : { start, isOptional };
    }

    // -- what changes ------------------------------------------------------------------------------------------------

    closed(opened, at) {
      if (this.withs.has(opened)) return this.edit(at, at + 1, "))with(__hf_names())");
      if (this.calls.has(opened)) {
        const from = Math.max(opened, at - ATTRIBUTES_LENGTH_MAX);
        const found = ATTRIBUTES.exec(this.text.slice(from, at));
        const end = found ? from + found.index : at;
        return this.edit(end, end, ")");
      }
      if (!this.patterns.has(opened)) return undefined;
      const found = matched(SOURCE, this.text.slice(at, at + SOURCE_LENGTH_MAX), 0);
      if (!found || found[2].startsWith("__hf_")) return undefined;
      const start = at + found[1].length;
      this.edit(start, start, "__hf_all(");
      return this.edit(start + found[2].length, start + found[2].length, ")");
    }

    wrapped(bracket, call) {
      this.calls.add(bracket);
      this.edit(bracket + 1, bracket + 1, call);
    }

    imported(start, end, word) {
      const meta = word === "import" && matched(META, this.text, end);
      if (meta) {
        if (this.before(start)[1] === "." || this.text.endsWith("__hf_meta(", start)) return;
        this.edit(start, start, "__hf_meta(");
        return void this.edit(end + meta[0].length, end + meta[0].length, ")");
      }
      const span = this.literal(start);
      if (span) this.edit(...span, this.specifier(this.text.slice(...span)));
      else if (word === "import" && this.isCall(start, end, "__hf_to(", "__hf_from("))
        this.wrapped(this.after(end), this.to);
    }

    literal(at) {
      const { text } = this;
      const call = matched(CALL, text, at);
      if (call) {
        const found = matched(LITERAL, text, at + call[0].length);
        return found && matched(CALL_END, text, LITERAL.lastIndex) ? spanOf(found) : null;
      }
      const bare = matched(BARE, text, at);
      let start = bare ? at + bare[0].length : 0;
      if (!bare) {
        if (at >= this.clauseEnd) this.clauseEnd = at + matched(CLAUSE, text, at)[0].length;
        start = this.clauseEnd;
      }
      const found = matched(LITERAL, text, start);
      if (!found || (!bare && !FROM.test(text.slice(Math.max(at, start - FROM_LENGTH), start)))) return null;
      return spanOf(found);
    }

    isCall(start, end, ...ours) {
      const at = this.after(end);
      if (this.text[at] !== "(" || this.before(start)[1] === ".") return false;
      const argument = this.after(at + 1);
      return ![")", ",", ...ours].some((each) => this.text.startsWith(each, argument)) && !this.isMethod(at);
    }

    isMethod(bracket) {
      return matched(METHOD, this.text.slice(bracket, bracket + METHOD_LENGTH_MAX), 0) !== null;
    }

    index(start) {
      const { text } = this;
      if (matched(KEY, text, start)) {
        const isOptional = text.slice(start - 2, start) === "?.";
        return this.owned(start - (isOptional ? 2 : 0), isOptional);
      }
      if (!this.isWord(start - 1)) return undefined;
      const [end, word] = this.before(start);
      if (!WINDOWS.has(word) || matched(FIXED_KEY, text, start)) return undefined;
      if ([".", "new", "#"].includes(this.before(end - word.length)[1])) return undefined;
      const name = this.names.has(word) ? NEW_NAMES[word] : word;
      return this.wrapped(start, `__hf_key(${name},`);
    }

    owned(given, isOptionalLink) {
      const owner = this.owner(given);
      if (owner === null || this.text.startsWith("__hf_of(", owner.start)) return;
      const [end] = this.before(given);
      this.edit(owner.start, owner.start, this.isWord(owner.start - 1) ? " __hf_of(" : "__hf_of(");
      if (owner.isOptional && !isOptionalLink) this.edit(end, end, this.text[end] === "." ? ")?" : ")?.");
      else this.edit(end, end, ")");
    }

    // Changes the owner of the member that is named here; false if it is none.
    member(start, end = -1) {
      const [dot, before] = this.before(start);
      if (before !== "." || this.text.slice(dot - 3, dot) === "...") return false;
      if (end >= 0 && this.isLength(end, dot)) return true;
      const isOptional = this.text.slice(dot - 2, dot) === "?.";
      this.owned(dot - 1 - (isOptional ? 1 : 0), isOptional);
      return true;
    }

    name(start, end, name) {
      if (this.member(start, name === "top" ? end : -1)) return;
      const [ended, before] = this.before(start);
      if ((before === "break" || before === "continue") && !this.text.slice(ended, start).includes("\n")) return;  // a label
      const inBraces = this.open.length > 0 && this.open.at(-1)[1] === "{";
      if (inBraces && this.isShorthand(end, before)) {
        this.patterns.add(this.open.at(-1)[0]);
        if (this.names.has(name)) this.edit(start, end, `${name}:${NEW_NAMES[name]}`);
      } else if (this.isKey(end, before)) {
        if (inBraces) this.patterns.add(this.open.at(-1)[0]);
      } else if (name === "eval" && this.text[this.after(end)] === "(") {
        if (this.names.has(name) && before !== "function" && this.isCall(start, end, "__hf_js("))
          this.wrapped(this.after(end), "__hf_js(");
      } else if (this.names.has(name)) this.edit(start, end, NEW_NAMES[name]);
    }

    within(start, end) {
      const bracket = this.after(end);
      const [, before] = this.before(start);
      if (this.text[bracket] !== "(" || before === "." || this.text.startsWith("__hf_in(", bracket + 1)) return;
      const brace = this.open.length && this.open.at(-1)[1] === "{" ? this.open.at(-1)[0] : -1;
      if (brace >= 0 && (this.isClass(brace) || ("{,".includes(before) && this.isObject(brace)))) return;
      this.withs.add(bracket);
      this.wrapped(bracket, "__hf_in(");
    }

    isLength(end, dot) {
      const after = this.after(end);
      const sign = this.text[after];
      if (this.text.slice(dot - 6, dot) === "style." || (sign && "-+*/%<>".includes(sign))) return true;
      return matched(ASSIGNS, this.text, after) !== null;
    }

    isShorthand(end, before) {
      if (before !== "{" && before !== ",") return false;
      const at = this.after(end);
      const ends = this.text[at] === "," || this.text[at] === "}" || matched(ASSIGNS, this.text, at) !== null;
      return ends && this.isObject(this.open.at(-1)[0]);
    }

    isKey(end, before) {
      const at = this.after(end);
      const isValue = before !== "" && ("?:&|=!<>+-*/%~^([".includes(before) || VALUE_WORDS.has(before));
      if (this.text[at] === ":") return !isValue;
      if (this.text[at] === "(" && before !== "function") return this.isMethod(at);
      if (this.open.length === 0 || this.open.at(-1)[1] !== "{" || isValue) return false;
      return ["static", "get", "set"].includes(before) || this.isClass(this.open.at(-1)[0]);
    }
  }

  function spanOf(literal) {
    return [literal.index + 1, literal.index + literal[0].length - 1];
  }

  // `specifier` is asked for the address of what is imported, `to` is the function to be asked while the script runs.
  return (text, specifier, to = "__hf_to(") =>
    (NEEDED.test(text) ? new Script(text, false, specifier, to).rewritten() : text);
})();

// `eval`, `Function`, timers: what they run is changed before.
function scriptsOf(win, addresses) {
  const evaluate = win.eval;
  const specifier = (name) => (/^(?:https?:|\/)/i.test(name) ? addresses.to(name, "js_") : name);
  const js = (text) => (typeof text === "string" ? scriptRewriter(text, specifier) : text);
  // That of a page, whose address is no script's; and that of a blob, which has none that others are relative to.
  const inline = (text) => scriptRewriter(text, addresses.module, "__hf_from(");
  const whole = (name) => (/^(?:https?:|\/)/i.test(name) ? new win.URL(specifier(name), addresses.home).href : name);
  const blob = (text) => scriptRewriter(text, whole);
  const inUrl = (url) => {
    const found = /^(\s*javascript:)([^]*)$/i.exec(url);
    return found ? found[1] + inline(found[2]) : url;
  };

  const define = (name, value) => Object.defineProperty(win, name, { value, writable: true, configurable: false });
  define("__hf_js", js);
  define("__hf_eval", { eval: (text) => evaluate(js(text)) }.eval);

  const kinds = ["function () {}", "async function () {}", "function* () {}", "async function* () {}"];
  for (const prototype of kinds.map((text) => Object.getPrototypeOf(evaluate(`(${text})`)))) {
    const native = prototype.constructor;
    const made = new Proxy(native, {
      apply: (target, self, given) => Reflect.construct(target, given.map(js)),
      construct: (target, given, as) => Reflect.construct(target, given.map(js), as === made ? target : as),
    });
    Object.defineProperty(prototype, "constructor", { value: made, writable: true, configurable: true });
    if (native === win.Function)
      Object.defineProperty(win, "Function", { value: made, writable: true, configurable: true });
  }
  for (const name of ["setTimeout", "setInterval"])
    wrap(win, name, (set) => function (handler, ...rest) { return set.call(this ?? win, js(handler), ...rest); });
  return { inline, blob, inUrl };
}
