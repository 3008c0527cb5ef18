// What can be said of a scene without a page: playing moments, and what belongs together.

// Player has the moments, and the scene of one of them. A step back is exact: what a moment replaces is kept.
class Player {
	constructor() {
		this.moments = [];
		this.scene = new Map();
		this.undo = [];
		this.at = -1; // the number of the moment that the scene is of
	}

	// add adds moments. Those that are there already, after a page has connected anew, are left out.
	add(moments) {
		for (const moment of moments) if (moment.n === this.moments.length) this.moments.push(moment);
	}

	get last() { return this.moments.length - 1; }

	step() {
		if (this.at >= this.last) return false;
		const moment = this.moments[++this.at], before = [];
		const change = (id, node) => {
			before.push([id, this.scene.get(id)]);
			if (node) this.scene.set(id, node); else this.scene.delete(id);
		};
		for (const [id, changed] of Object.entries(moment.set ?? {})) {
			const node = { ...this.scene.get(id), ...changed };
			for (const field in node) if (node[field] === null) delete node[field];
			change(id, node);
		}
		for (const id of moment.gone ?? []) change(id, undefined);
		this.undo[this.at] = before;
		return true;
	}

	back() {
		if (this.at < 0) return false;
		for (const [id, node] of this.undo[this.at--].reverse()) {
			if (node) this.scene.set(id, node); else this.scene.delete(id);
		}
		return true;
	}

	go(n) {
		n = Math.max(-1, Math.min(n, this.last));
		while (this.at < n) this.step();
		while (this.at > n) this.back();
	}
}

const states = ["ready", "starting", "waiting", "ending", "ended"];

// group returns pods one by one if there are few, and else how many are in each state.
function group(pods, most) {
	if (pods.length <= most) return { pods: [...pods].sort((a, b) => order(a, b)), groups: [] };
	const count = new Map();
	for (const pod of pods) count.set(pod.state, (count.get(pod.state) ?? 0) + 1);
	return { pods: [], groups: states.filter((s) => count.has(s)).map((state) => ({ state, count: count.get(state) })) };
}

const names = new Intl.Collator("en", { numeric: true });
const order = (a, b) => names.compare(a.name, b.name);

// lanes returns the Deployments with their ReplicaSets and these with their pods; what has no owner stands by itself.
function lanes(scene) {
	const kinds = { deployment: [], replicaset: [], replicationcontroller: [], pod: [], node: [], key: [], manager: [], invariant: [] };
	for (const [id, node] of scene) kinds[node.kind]?.push({ id, ...node });
	const owned = new Map();
	for (const o of [...kinds.replicaset, ...kinds.replicationcontroller, ...kinds.pod]) {
		const owner = scene.has(o.owner) ? o.owner : "";
		if (!owned.has(owner)) owned.set(owner, []);
		owned.get(owner).push(o);
	}
	// Of two managers that have the same key, because one was frozen, the one that leads counts.
	const leads = new Set(kinds.manager.filter((m) => m.state === "leads").map((m) => m.name));
	const keys = new Map([...kinds.key].sort((a, b) => leads.has(a.manager) - leads.has(b.manager)).map((k) => [k.loop + " " + k.namespace + "/" + k.name, k]));
	const keyOf = (loop, o) => keys.get(loop + " " + o.namespace + "/" + o.name);
	const pods = (id) => (owned.get(id) ?? []).filter((o) => o.kind === "pod");
	const set = (o) => ({ ...o, members: pods(o.id), key: keyOf(o.kind + "-controller", o) });
	const sets = (id) => (owned.get(id) ?? []).filter((o) => o.kind !== "pod").map(set)
		.sort((a, b) => (b.revision || 0) - (a.revision || 0) || order(a, b));
	const deployments = kinds.deployment.sort(order).map((d) => ({ ...d, sets: sets(d.id), key: keyOf("deployment-controller", d) }));
	const alone = sets("");
	if (alone.length) deployments.push({ id: "alone", sets: alone });
	const orphans = pods("");
	if (orphans.length) deployments.push({ id: "orphans", sets: [{ id: "nobody", name: "nobody's", members: orphans }] });
	// Nodes are of interest where one has a range of addresses, or is not as all are.
	const shown = kinds.node.some((n) => n.range || n.taints || n.state !== "Ready=True") ? kinds.node.sort(order) : [];
	const nodes = shown.map((n) => ({ ...n, members: kinds.pod.filter((p) => p.node === n.name).map((p) => ({ ...p, id: n.id + p.id })) }));
	return { deployments, nodes, keys: kinds.key, managers: kinds.manager.sort(order), invariants: kinds.invariant };
}

// behind says how what a ReplicaSet's last sync saw in the cache differs from what the API server has, or nothing.
function behind(set) {
	const saw = set.key?.saw;
	if (saw === undefined) return "";
	const active = set.members.filter((p) => p.state !== "ending" && p.state !== "ended").length;
	return saw === active ? "" : `cache ${saw}, API server ${active}`;
}

// facts writes what a sync has observed or decided.
function facts(f) {
	if (!f) return "";
	return Object.entries(f).filter(([name]) => name !== "kind" && name !== "version").map(([name, value]) => {
		const words = name.replace(/[A-Z]/g, (c) => " " + c.toLowerCase());
		if (value === true) return words;
		if (value === false) return "not " + words;
		if (Array.isArray(value)) return value.length ? words + ": " + value.map(one).join(", ") : "";
		return words + " " + one(value);
	}).filter(Boolean).join(" · ");
}

function one(value) {
	if (typeof value === "number") return String(Math.round(10 * value) / 10);
	if (value === null || typeof value !== "object") return String(value);
	if ("from" in value) return `${value.name} from ${value.from} to ${value.to}`;
	if ("available" in value) return `${value.name}${value.new ? " (new)" : ""} ${value.size} asked, ${value.available} available`;
	return Object.values(value).join(" ");
}
