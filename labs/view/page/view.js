const $ = (id) => document.getElementById(id);
const player = new Player();
let mode = data.live ? "live" : "paused"; // live, playing, paused
let dirty = true;
const delays = []; // from a change to the screen, in milliseconds
let measured = -1;

// --- drawing

const svg = "http://www.w3.org/2000/svg";
const drawn = new Map();

// paint has the picture show shapes, each known by its key. What has not changed is left alone.
function paint(shapes) {
	const seen = new Set();
	for (const [key, tag, attributes, text] of shapes) {
		seen.add(key);
		let shape = drawn.get(key);
		if (!shape) {
			shape = { element: document.createElementNS(svg, tag), attributes: {}, text: "" };
			drawn.set(key, shape);
			$("scene").append(shape.element);
		}
		for (const [name, value] of Object.entries(attributes)) {
			if (shape.attributes[name] !== value) shape.element.setAttribute(name, shape.attributes[name] = value);
		}
		if (text !== undefined && shape.text !== text) shape.element.textContent = shape.text = text;
	}
	for (const [key, shape] of drawn) {
		if (!seen.has(key)) {
			shape.element.remove();
			drawn.delete(key);
		}
	}
}

const boxHeight = 62, gap = 10, most = 60, side = 13;

// shapesOf lays out the lanes: beside each other where there is room, else below each other.
function shapesOf(scene, width) {
	const wide = width >= 680, shapes = [];
	const x = wide ? [0, width * 0.33, width * 0.69] : [0, 14, 28];
	const w = wide ? [width * 0.3, width * 0.33, width * 0.31] : [width, width - 14, width - 28];
	let y = 0;
	if (wide) {
		["Deployments", "ReplicaSets", "Pods"].forEach((head, i) => shapes.push(["head" + i, "text", { x: x[i], y: 14, class: "head" }, head]));
		y = 26;
	}
	const cut = (text, width) => (text.length > width / 6.3 ? text.slice(0, Math.max(3, width / 6.3 - 1)) + "…" : text);
	const box = (key, lane, y, o, lines, warn) => {
		const cls = "box" + (warn ? " bad" : "") + (o.key?.working ? " working" : "");
		shapes.push([key + "box", "rect", { x: x[lane] + 1, y, width: w[lane] - 2, height: boxHeight, rx: 6, class: cls }]);
		lines.forEach((line, i) => shapes.push([key + "line" + i, "text", { x: x[lane] + 10, y: y + 19 + 17 * i, class: i ? "quiet" : "" }, cut(line, w[lane] - 16)]));
		if (warn) shapes.push([key + "warn", "text", { x: x[lane] + 10, y: y + 19 + 17 * lines.length, class: "bad" }, cut(warn, w[lane] - 16)]);
	};
	for (const d of scene.deployments) {
		const top = y;
		if (d.kind) {
			box(d.id, 0, y, d, [d.name, `${d.available} of ${d.want} available, ${d.updated} new`, d.image + (d.revision ? `, revision ${d.revision}` : "") + (d.paused ? ", paused" : "")]);
			if (!wide) y += boxHeight + gap;
		}
		for (const s of d.sets) {
			const rowTop = y;
			if (s.kind) {
				box(s.id, 1, y, s, [s.name, `asks for ${s.want}, has ${s.members.length}, ${s.ready} ready`].concat(behind(s) ? [] : [`${s.image}${s.revision ? `, revision ${s.revision}` : ""}`]), behind(s));
				if (wide && d.kind) shapes.push([s.id + "edge", "path", { d: `M${x[0] + w[0]} ${top + boxHeight / 2} C${x[1] - 14} ${top + boxHeight / 2} ${x[0] + w[0] + 14} ${y + boxHeight / 2} ${x[1]} ${y + boxHeight / 2}` }]);
			} else {
				shapes.push([s.id + "name", "text", { x: x[1], y: y + 19, class: "quiet" }, s.name]);
			}
			if (!wide) y += boxHeight + 4;
			const height = podShapes(shapes, s, x[2], y + 2, w[2]);
			y = Math.max(wide ? rowTop + boxHeight : y, y + height) + gap;
		}
		if (wide) y = Math.max(y, top + boxHeight + gap);
		y += gap;
	}
	if (scene.nodes.length) shapes.push(["nodes", "text", { x: 0, y: y + 19, class: "head" }, "Nodes"]);
	if (scene.nodes.length && !wide) y += 26;
	for (const n of scene.nodes) {
		// Two taints of one key are one text: unreachable:NoSchedule+NoExecute.
		const top = y, taints = n.taints.replace(/(\S+):(\w+), \1:/g, "$1:$2+");
		box(n.id, 1, y, n, [`${n.name}: ${n.state}`, n.range && `range ${n.range}`], taints || (n.state === "Ready=True" ? "" : "no taint"));
		if (!wide) y += boxHeight + 4;
		y = Math.max(top + boxHeight, y + podShapes(shapes, n, x[2], y + 2, w[2])) + gap;
	}
	if (!scene.deployments.length && !scene.nodes.length) {
		shapes.push(["none", "text", { x: 0, y: y + 20, class: "quiet" }, "Nothing is there yet."]);
		y += 40;
	}
	return { shapes, height: y };
}

// podShapes draws the pods of a set: each by itself, or those that are alike as a bar with their number.
function podShapes(shapes, set, x, y, width) {
	const { pods, groups } = group(set.members, most);
	const across = Math.max(1, Math.floor(width / (side + 4)));
	pods.forEach((pod, i) => shapes.push([pod.id, "rect", { x: x + (i % across) * (side + 4), y: y + Math.floor(i / across) * (side + 4), width: side, height: side, rx: 3, class: pod.state }]));
	const total = set.members.length;
	groups.forEach((g, i) => {
		shapes.push([set.id + g.state, "rect", { x, y: y + i * 19, width: Math.max(3, (width - 110) * g.count / total), height: 14, rx: 3, class: g.state }]);
		shapes.push([set.id + g.state + "n", "text", { x: x + width - 104, y: y + i * 19 + 12, class: "quiet" }, `${g.count} ${g.state}`]);
	});
	return pods.length ? Math.ceil(pods.length / across) * (side + 4) : groups.length * 19;
}

// write puts text into a page without being taken for HTML.
const element = (tag, text, attributes = {}) => {
	const e = document.createElement(tag);
	if (text) e.textContent = text;
	for (const [name, value] of Object.entries(attributes)) if (value !== undefined && value !== "") e.setAttribute(name, value);
	return e;
};

const newest = 8; // keys that are shown

// showLoops shows the keys that had to do with something last.
function showLoops(keys, now) {
	// Loops that tell no more than that they were busy would only be in the way.
	const shown = keys.filter((k) => k.observed || k.error || k.waits || (k.working && data.book?.[k.loop]) || (k.queued && !k.sync)).sort((a, b) => (b.working ? 1 : 0) - (a.working ? 1 : 0) || (b.sync ?? 0) - (a.sync ?? 0)).slice(0, newest);
	$("keys").replaceChildren(...shown.map((k) => {
		const card = element("article", "", { class: "key" + (k.working ? " working" : "") + (k.error ? " failed" : "") });
		const head = element("h3", k.namespace + "/" + k.name);
		head.append(element("small", `${k.loop}${k.sync ? `, sync ${k.sync}` : ""}${k.manager ? `, ${k.manager}` : ""}`));
		const list = element("dl");
		const row = (name, text, cls) => {
			if (!text) return;
			const term = element("dt"), href = data.book?.[k.loop]?.[name];
			term.append(href && data.root ? element("a", name, { href: data.root + href, target: "_blank" }) : name);
			list.append(term, element("dd", text, { class: cls }));
		};
		const wait = k.due - now;
		row("queue", k.queued ? (wait > 1 ? `due in ${wait < 1000 ? Math.round(wait) + " ms" : (wait / 1000).toFixed(1) + " s"}` : "waits for a worker") : "");
		row("observed", facts(k.observed));
		row("decided", k.decided === undefined ? "" : facts(k.decided) || "nothing");
		row("done", (k.done ?? []).join("; ") + (k.more ? `; and ${k.more} more` : ""));
		row("waits", k.waits);
		row(k.error ? "error" : "ended", k.error ?? (k.seconds !== undefined ? `after ${(1000 * k.seconds).toFixed(1)} ms` : ""), k.error ? "error" : "");
		card.append(head, list);
		return card;
	}));
	if (!shown.length) $("keys").append(element("p", $("missing").hidden ? "No loop is at work. What waited in the queues of a manager that has ended is gone with it." : "They cannot be seen."));
}

function showInvariants(invariants) {
	const list = $("invariants").lastElementChild;
	const text = invariants.map((i) => i.name + i.state).join();
	$("invariants").hidden = !invariants.length;
	if (list.dataset.text === text) return;
	list.dataset.text = text;
	list.replaceChildren(...invariants.map((i) => element("li", i.state === "broken" ? `${i.name}: ${i.says}` : i.rule, { class: i.state })));
}

const time = (at) => new Date(at).toISOString().slice(11, 23);
const linesAround = 150;
let logFrom = -1, logTo = -1;

// showLog shows the lines around the moment.
function showLog() {
	const to = Math.min(player.last, Math.max(player.at + (mode === "live" ? 0 : 20), 0)), from = Math.max(0, to - linesAround);
	const log = $("log"), line = (m) => {
		const item = element("li", "", { class: m.kind + (m.says.includes("is broken") ? " broken" : ""), "data-n": m.n });
		item.append(element("a", time(m.at), { href: "#moment=" + m.n }), element("span", m.says));
		return item;
	};
	if (from < logFrom || from > logTo + 1 || to < logTo) {
		log.replaceChildren();
		logFrom = from;
		logTo = from - 1;
	}
	while (logFrom < from) {
		log.firstElementChild?.remove();
		logFrom++;
	}
	for (; logTo < to; logTo++) log.append(line(player.moments[logTo + 1]));
	log.querySelector(".at")?.classList.remove("at");
	const here = log.querySelector(`[data-n="${player.at}"]`);
	here?.classList.add("at");
	if (here) log.scrollTop = here.offsetTop - log.offsetTop - log.clientHeight / 2;
}

const tick = 200; // how often the delays of queues are drawn anew, in milliseconds
let lastDrawn = 0;

function draw() {
	if (!dirty && (mode !== "live" || Date.now() - lastDrawn < tick || !player.scene.size)) return;
	dirty = false;
	lastDrawn = Date.now();
	const scene = lanes(player.scene), moment = player.moments[player.at];
	const width = $("scene").clientWidth || 600, { shapes, height } = shapesOf(scene, width);
	paint(shapes);
	$("scene").setAttribute("viewBox", `0 0 ${width} ${height}`);
	$("scene").style.height = height + "px";
	showLoops(scene.keys, mode === "live" ? Date.now() : moment?.at ?? 0);
	$("managers").replaceChildren(...scene.managers.map((m) => element("span", `${m.name} ${{ leads: "leads", waits: "waits", frozen: "is frozen", woken: "has woken up", gone: "is gone", led: "led" }[m.state]}`, { class: m.state })));
	showInvariants(scene.invariants);
	showLog();
	$("time").max = Math.max(player.last, 0);
	$("time").value = Math.max(player.at, 0);
	$("clock").textContent = moment ? `${time(moment.at)} · ${player.at + 1} of ${player.moments.length}` : "";
	$("now").textContent = moment?.says ?? "";
	$("link").href = "#moment=" + Math.max(player.at, 0);
	$("pause").textContent = mode === "paused" ? "Play" : "Pause";
	$("live").setAttribute("aria-pressed", mode === "live");
	$("log").setAttribute("aria-live", mode === "paused" ? "polite" : "off");
	if (data.live && mode === "live") {
		for (; measured < player.at; measured++) delays.push(Date.now() - player.moments[measured + 1].at);
	}
}

function frame() {
	draw();
	requestAnimationFrame(frame);
}

// --- time

let playing;
function setMode(next) {
	mode = next;
	clearTimeout(playing);
	if (mode === "live") player.go(player.last);
	if (mode === "playing") playOn();
	dirty = true;
}

const longestPause = 800; // between two moments that are played, in milliseconds

// playOn plays moments at the pace at which they came; those of a moment come together.
function playOn() {
	if (!player.step()) {
		setMode(data.live ? "live" : "paused");
		return;
	}
	dirty = true;
	const now = player.moments[player.at], next = player.moments[player.at + 1];
	playing = setTimeout(playOn, next ? Math.max(0, Math.min(next.at - now.at, longestPause)) : 0);
}

const actions = {
	back: () => { setMode("paused"); player.back(); },
	step: () => { setMode("paused"); player.step(); },
	pause: () => {
		if (mode !== "paused") return setMode("paused");
		if (player.at === player.last && !data.live) player.go(-1);
		setMode("playing");
	},
	live: () => setMode("live"),
};
for (const [id, action] of Object.entries(actions)) $(id).addEventListener("click", () => { action(); dirty = true; });
$("time").addEventListener("input", () => { setMode("paused"); player.go(Number($("time").value)); });
document.addEventListener("keydown", (event) => {
	if (event.altKey || event.ctrlKey || event.metaKey || event.target.closest("input, a, #log")) return;
	if (event.key === " " && event.target.closest("button")) return;
	const action = { ArrowLeft: actions.back, ArrowRight: actions.step, " ": actions.pause,
		Home: () => { setMode("paused"); player.go(0); }, End: () => { setMode("paused"); player.go(player.last); } }[event.key];
	if (!action) return;
	event.preventDefault();
	action();
	dirty = true;
});

// toLinked goes to the moment that the address names.
function toLinked() {
	const n = /^#moment=(\d+)$/.exec(location.hash)?.[1];
	if (n === undefined || Number(n) > player.last) return false;
	setMode("paused");
	player.go(Number(n));
	return true;
}
addEventListener("hashchange", toLinked);
addEventListener("resize", () => { dirty = true; });

// --- where the moments come from

$("missing").textContent = data.missing ?? "";
$("missing").hidden = !data.missing;
if (data.live) {
	const source = new EventSource("moments");
	let first = true;
	source.onmessage = (event) => {
		player.add(JSON.parse(event.data));
		if (first) {
			measured = player.last; // what has happened before the page was there is not late
			toLinked();
		}
		first = false;
		if (mode === "live") player.go(player.last);
		dirty = true;
	};
	source.onerror = () => { $("answer").textContent = "The lab does not answer: it has ended, or will be back. What has happened can still be played."; };
	source.onopen = () => { $("answer").textContent = ""; };
	$("disturb").hidden = !data.deeds?.length;
	$("deeds").append(...(data.deeds ?? []).map((deed) => {
		const button = element("button", deed.name, { title: deed.does });
		button.addEventListener("click", async () => {
			button.disabled = true;
			$("answer").textContent = deed.does;
			const answer = await fetch("deeds/" + encodeURIComponent(deed.name), { method: "POST" }).catch((error) => ({ ok: false, text: () => String(error) }));
			if (!answer.ok) $("answer").textContent = "That did not succeed: " + await answer.text();
			button.disabled = false;
		});
		return button;
	}));
} else {
	$("live").hidden = true;
	player.add(data.moments ?? []);
	if (!toLinked()) player.go(0);
}

// still returns the picture of the moment as a file, with its colours in it.
function still() {
	const copy = $("scene").cloneNode(true), { width, height } = $("scene").viewBox.baseVal, head = 62;
	const colours = Object.fromEntries(["raised", "ink", "quiet", "line", "link", "waiting", "starting", "ready", "ending", "ended", "bad"]
		.map((name) => [name, getComputedStyle(document.documentElement).getPropertyValue("--" + name).replace(/light-dark\((.*?),.*\)/, "$1")]));
	const c = (name) => colours[name].trim();
	copy.setAttribute("viewBox", `0 ${-head} ${Math.round(width)} ${Math.round(height + head)}`);
	copy.removeAttribute("style");
	copy.setAttribute("xmlns", svg);
	const line = (y, text) => {
		const e = document.createElementNS(svg, "text");
		e.setAttribute("y", y);
		e.textContent = text;
		return e;
	};
	const words = $("now").textContent, room = Math.floor(width / 6.8), cut = words.length > room ? words.lastIndexOf(" ", room) : words.length;
	copy.prepend(line(-48, [...$("managers").children].map((m) => m.textContent).join(", ")), line(-30, words.slice(0, cut)), line(-13, words.slice(cut, cut + room)));
	const style = document.createElementNS(svg, "style");
	style.textContent = `text{font:13px sans-serif;fill:${c("ink")}}.quiet,.head{fill:${c("quiet")};font-size:12px}.head{font-weight:600}text.bad{fill:${c("bad")};font-size:12px}` +
		`rect.box{fill:${c("raised")};stroke:${c("line")}}rect.working{stroke:${c("link")};stroke-width:2}rect.bad{stroke:${c("bad")}}path{fill:none;stroke:${c("line")};stroke-width:1.5}` +
		["waiting", "starting", "ready", "ending", "ended"].map((s) => `.${s}{fill:${c(s)}}`).join("");
	copy.prepend(style);
	return new XMLSerializer().serializeToString(copy) + "\n";
}

if (self !== top) {
	document.body.classList.add("embedded");
	// What the page around it has chosen, light or dark, or "" for what the system has.
	addEventListener("message", ({ data: { theme } }) => { document.documentElement.style.colorScheme = theme ?? ""; });
}

// What tests and pictures ask for.
globalThis.view = { player, delays, mode: () => mode, still };
frame();
