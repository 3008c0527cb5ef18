"use strict";
// What a page can do besides being read. Everything is built here, so that nothing is there which does not work.
// history.js and search-index.js are scripts that are loaded when they are needed: a page from a file may not fetch.
const book = { histories: null, index: null };

// What the reader has chosen and where they were is kept in the browser, if it lets us.
const memory = {
	get(key) { try { return JSON.parse(localStorage.getItem("kcm." + key)); } catch { return null; } },
	set(key, value) { try { localStorage.setItem("kcm." + key, JSON.stringify(value)); } catch { /* then it is forgotten */ } },
};
const theme = memory.get("theme");
if (theme) document.documentElement.dataset.theme = theme;

// make("a", {href: "…"}, "words", element) makes an element.
function make(tag, attributes, ...content) {
	const element = document.createElement(tag);
	for (const [name, value] of Object.entries(attributes || {})) {
		if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
		else element.setAttribute(name, value);
	}
	element.append(...content);
	return element;
}

const root = () => document.body.dataset.root;
const loading = {};
function load(name) {
	loading[name] ||= new Promise((done, failed) => {
		document.head.append(make("script", { src: root() + name, onload: done, onerror: failed }));
	});
	return loading[name];
}
const loadIndex = () => load("search-index.js").then(() => { if (!book.index.ready) prepare(book.index); });

// sayTheme tells a picture that moves, which is a page of its own, what the reader has chosen.
const sayTheme = (frame) => frame.contentWindow?.postMessage({ theme: document.documentElement.dataset.theme }, "*");

// Light or dark: as the system has it, until somebody chooses.
function addThemeButton(header) {
	const dark = () => (document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
	const button = make("button", { type: "button", onclick() {
		const next = dark() ? "light" : "dark";
		document.documentElement.dataset.theme = next;
		memory.set("theme", next);
		say();
	} });
	const say = () => {
		button.textContent = dark() ? "Light" : "Dark";
		document.querySelectorAll("iframe.moving").forEach(sayTheme);
	};
	say();
	header.append(button);
}

// What copying a block means: of a session the commands, without prompts and output, and of all else every byte.
function copied(figure) {
	if (!figure.classList.contains("console")) return figure.querySelector("pre").textContent;
	return [...figure.querySelectorAll("pre b")].map((command) => command.textContent + "\n").join("");
}

function addTools(figure) {
	const caption = figure.querySelector("figcaption");
	const button = make("button", { type: "button", async onclick() {
		const text = copied(figure);
		try {
			await navigator.clipboard.writeText(text);
		} catch { // a page from a file may have no clipboard
			const area = make("textarea", {}, text);
			document.body.append(area);
			area.select();
			document.execCommand("copy");
			area.remove();
			button.focus();
		}
		button.textContent = "Copied";
		setTimeout(() => { button.textContent = "Copy"; }, 2000);
	} }, "Copy");
	if (!caption) {
		button.className = "bare";
		figure.prepend(button);
		return;
	}
	const tools = make("div", { class: "tools" }, button);
	caption.append(tools);
	const names = (figure.dataset.history || "").split(" ").filter(Boolean);
	if (names.length > 0) {
		const open = make("button", { type: "button", "aria-expanded": "false", async onclick() {
			await load("history.js");
			open.remove();
			for (const name of names) tools.append(slider(figure, name, names.length > 1));
			tools.querySelector("input").focus();
		} }, "From chapter to chapter");
		tools.append(open);
	}
}

// slider shows a declaration as of each chapter and each of its steps, with what has changed since the one before.
function slider(figure, name, several) {
	const versions = book.histories[name];
	const original = figure.querySelector("pre");
	const page = figure.closest("[data-page]").dataset.page;
	let here = versions.findLastIndex((version) => version.address === page + "#" + name);
	if (here < 0) here = versions.findLastIndex((version) => version.chapter.slice(0, 2) <= page.slice(0, 2));
	const output = make("output");
	const input = make("input", { type: "range", min: 0, max: versions.length - 1, step: 1, value: here, oninput: show });
	function show() {
		const at = Number(input.value), version = versions[at];
		const gone = !version.lines.some((line) => line[0] !== "-");
		input.setAttribute("aria-valuetext", "chapter " + version.chapter);
		output.replaceChildren(version.address
			? make("a", { href: root() + version.address }, "chapter " + version.chapter)
			: "chapter " + version.chapter, gone ? ", gone" : at === here ? ", here" : at === versions.length - 1 ? ", final" : "");
		figure.querySelector("pre.then")?.remove();
		const changes = make("pre", { class: "then", tabindex: "0", "aria-label": name + " as of chapter " + version.chapter }, make("code"));
		for (const line of version.lines) {
			const words = (at === 0 ? " " : line[0]) + "\t" + line.slice(1) + "\n"; // so that tabs behind it are as wide as without it
			changes.firstChild.append(at > 0 && line[0] === "+" ? make("ins", {}, words) : line[0] === "-" ? make("del", {}, words) : words);
		}
		original.hidden = true;
		original.after(changes);
	}
	const back = make("button", { type: "button", onclick() {
		input.value = here;
		figure.querySelector("pre.then")?.remove();
		original.hidden = false;
		output.replaceChildren("chapter " + versions[here].chapter + ", here");
	} }, "Back");
	const label = make("label", {}, several ? name.replace(/^[^.]*\./, "") + " as of" : "As of", input, output);
	output.append("chapter " + versions[here].chapter + ", here");
	return make("div", { class: "tools" }, label, back);
}

// Search. A word is found where it begins one of the book's; if none begins with it, those that are a typing mistake away
// count.
const split = (text) => text.toLowerCase().match(/[\p{L}\p{N}]+(?:[-'][\p{L}\p{N}]+)*/gu) || [];
const parts = (title) => split(title.replace(/([a-z0-9])([A-Z])/g, "$1 $2")).flatMap((word) => [word, ...word.split("-")]).concat(split(title));

function prepare(index) {
	index.words = Object.entries(index.words);
	index.titles = new Map();
	index.entries.forEach(([title], number) => {
		for (const word of new Set(parts(title))) {
			if (!index.titles.has(word)) index.titles.set(word, []);
			index.titles.get(word).push(number);
		}
	});
	index.ready = true;
}

// distance is how many letters have to be added, dropped, changed or exchanged with their neighbour, or more than most.
function distance(a, b, most) {
	if (Math.abs(a.length - b.length) > most) return most + 1;
	let before = [], row = Array.from({ length: b.length + 1 }, (_, i) => i);
	for (let i = 1; i <= a.length; i++) {
		const next = [i];
		let least = i;
		for (let j = 1; j <= b.length; j++) {
			next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1));
			if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) next[j] = Math.min(next[j], before[j - 2] + 1);
			least = Math.min(least, next[j]);
		}
		if (least > most) return most + 1;
		before = row;
		row = next;
	}
	return row[b.length];
}

// matching gives each entry that a word of the query fits a number: how well it does.
function matching(index, word) {
	const scores = new Map();
	const count = (numbers, score) => {
		const rare = Math.log(1 + index.entries.length / numbers.length);
		for (const number of numbers) scores.set(number, Math.max(scores.get(number) || 0, score * rare));
	};
	const each = (fits) => {
		for (const [candidate, numbers] of index.titles) { const fit = fits(candidate); if (fit) count(numbers, 6 * fit); }
		for (const [candidate, numbers] of index.words) { const fit = fits(candidate); if (fit) count(numbers, fit); }
	};
	each((candidate) => candidate === word ? 1 : candidate.startsWith(word) ? 0.4 + 0.4 * word.length / candidate.length : 0);
	const most = word.length < 4 ? 0 : word.length < 8 ? 1 : 2;
	if (scores.size === 0 && most > 0) each((candidate) => { const d = distance(word, candidate, most); return d <= most ? 0.4 / d : 0; });
	return scores;
}

// search returns what has most of the query's words, and of those what they fit best.
function search(index, query) {
	const found = new Map();
	for (const word of split(query)) {
		for (const [number, score] of matching(index, word)) found.set(number, (found.get(number) || 0) + 1000 + score);
	}
	return [...found].sort(([a, x], [b, y]) => y - x || a - b).slice(0, 30).map(([number]) => {
		const [title, address, kind] = index.entries[number];
		return { title, address, kind, page: index.pages[address.split("#")[0]] };
	});
}
book.search = (query) => search(book.index, query);

function addSearch(header) {
	const list = make("ol"), status = make("p", { role: "status" });
	const panel = make("div", { class: "found", hidden: "" }, status, list);
	const input = make("input", { type: "search", placeholder: "Search", "aria-label": "Search the book", autocomplete: "off", async oninput() {
		await loadIndex();
		const found = book.search(input.value);
		panel.hidden = input.value.trim() === "";
		status.textContent = found.length === 0 ? "Nothing found" : found.length === 30 ? "The best 30" : found.length + " found";
		list.replaceChildren(...found.map(({ title, address, kind, page }) =>
			make("li", {}, make("a", { href: root() + address, onclick() { panel.hidden = true; } }, title, make("small", {}, (kind === "section" ? "" : kind + " · ") + page)))));
	} });
	input.addEventListener("focus", loadIndex, { once: true });
	const box = make("search", { class: "search", onkeydown(event) {
		const links = [...list.querySelectorAll("a")], at = links.indexOf(document.activeElement);
		if (event.key === "Escape") { panel.hidden = true; input.focus(); }
		else if (event.key === "Enter" && at < 0 && links.length > 0) links[0].click();
		else if (event.key === "ArrowDown" && at + 1 < links.length) links[at + 1].focus();
		else if (event.key === "ArrowUp" && at >= 0) (links[at - 1] || input).focus();
		else return;
		event.preventDefault();
	} }, input, panel);
	document.addEventListener("focusin", (event) => { if (!box.contains(event.target)) panel.hidden = true; });
	document.addEventListener("click", (event) => { if (!box.contains(event.target)) panel.hidden = true; });
	header.append(box);
}

// Where the reader is: in the contents of the page, and the next time on the start page.
function rememberPlace() {
	const main = document.querySelector("main");
	const headings = [...main.querySelectorAll("h1[id], h2[id], h3[id]")];
	const lines = new Map([...document.querySelectorAll("#contents a[href^='#']")].map((line) => [line.getAttribute("href").slice(1), line]));
	let marked = null;
	const note = () => {
		const here = headings.findLast((heading) => heading.getBoundingClientRect().top < innerHeight / 3) || headings[0];
		if (!here) return;
		marked?.classList.remove("here");
		marked = lines.get(here.id);
		marked?.classList.add("here");
		if ("chapter" in main.dataset) {
			memory.set("place", { address: document.body.dataset.page + "#" + here.id, title: headings[0].textContent, section: here === headings[0] ? "" : here.textContent });
		}
	};
	let waiting = false;
	addEventListener("scroll", () => {
		if (waiting) return;
		waiting = true;
		requestAnimationFrame(() => { waiting = false; note(); });
	}, { passive: true });
	note();
}

function offerPlace() {
	const place = memory.get("place");
	if (document.body.dataset.page !== "index.html" || !place) return;
	document.querySelector("h1")?.after(make("p", { class: "resume" }, "Go on where you were: ",
		make("a", { href: root() + place.address }, place.title + (place.section ? ", " + place.section : ""))));
}

// In print everything that is folded is open.
const opened = [];
addEventListener("beforeprint", () => {
	for (const folded of document.querySelectorAll("details:not([open])")) { folded.open = true; opened.push(folded); }
});
addEventListener("afterprint", () => { for (const folded of opened.splice(0)) folded.open = false; });

// A table of three columns or more is shown line by line on a narrow screen, where each cell says what column it is of. By
// its roles it is a table for a screen reader all the same.
function label(table) {
	const labels = [...table.rows[0].cells].map((cell) => cell.textContent.trim());
	if (labels.length < 3) return;
	table.classList.add("wide");
	table.role = "table";
	for (const row of table.rows) {
		row.role = "row";
		[...row.cells].forEach((cell, i) => {
			cell.role = cell.tagName === "TH" ? "columnheader" : "cell";
			cell.dataset.label = labels[i];
		});
	}
}

// A picture that moves is a still one with a link to what plays it. Here it is played in its place.
function playInPlace(link) {
	const picture = link.querySelector("img");
	const frame = make("iframe", { src: link.href, title: picture.alt, loading: "lazy", class: "moving", onload: () => sayTheme(frame) });
	link.after(frame);
	picture.before("By itself in a page");
}

// Where make serve shows the page, it asks each second whether it has been written anew.
if (location.hostname === "127.0.0.1") setInterval(async () => {
	const written = (await fetch("", { method: "HEAD" })).headers.get("Last-Modified");
	if (Date.parse(written) > Date.parse(document.lastModified)) location.reload();
}, 1000);

addEventListener("DOMContentLoaded", () => {
	const header = document.querySelector("header");
	addSearch(header);
	addThemeButton(header);
	document.querySelectorAll("figure.code").forEach(addTools);
	document.querySelectorAll("main table").forEach(label);
	document.querySelectorAll("a.moving").forEach(playInPlace);
	offerPlace();
	rememberPlace();
	// What is wider than its box, code or a diagram, can be scrolled with the keyboard.
	const reach = (box) => { if (box.scrollWidth > box.clientWidth) box.tabIndex = 0; else box.removeAttribute("tabindex"); };
	const observer = new ResizeObserver((entries) => entries.forEach(({ target }) => reach(target)));
	document.querySelectorAll('pre, p:has(> img[src$=".svg"])').forEach((box) => observer.observe(box));
});
