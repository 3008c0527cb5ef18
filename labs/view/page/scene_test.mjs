import assert from "node:assert/strict";
import test from "node:test";
import { readFileSync } from "node:fs";
import { runInThisContext } from "node:vm";

runInThisContext(readFileSync(new URL("scene.js", import.meta.url), "utf8"));
const { Player, behind, facts, group, lanes } = runInThisContext("({ Player, behind, facts, group, lanes })");

const moments = [
	{ n: 0, at: 0, set: { d: { kind: "deployment", name: "web", namespace: "shop" } } },
	{ n: 1, at: 1, set: { r: { kind: "replicaset", name: "web-1", namespace: "shop", owner: "d", revision: "1" } } },
	{ n: 2, at: 2, set: { p: { kind: "pod", name: "web-1-a", owner: "r", state: "waiting" } } },
	{ n: 3, at: 3, set: { p: { state: "ready" } } },
	{ n: 4, at: 4, gone: ["p"] },
];

test("steps back lead to exactly what was there before", () => {
	const player = new Player();
	player.add(moments);
	const scenes = [];
	while (player.step()) scenes.push(JSON.stringify([...player.scene]));
	assert.equal(scenes.length, 5);
	for (let n = 4; n >= 0; n--) {
		assert.equal(JSON.stringify([...player.scene]), scenes[n], `at moment ${n}`);
		player.back();
	}
	assert.equal(player.scene.size, 0);
	assert.equal(player.back(), false);
});

test("going to a moment is the same from both sides, and ends at the last one", () => {
	const player = new Player();
	player.add(moments);
	player.go(99);
	assert.equal(player.at, 4);
	player.go(2);
	assert.equal(player.scene.get("p").state, "waiting");
	player.go(3);
	assert.equal(player.scene.get("p").state, "ready");
});

test("a moment says of a node what is different, and null for what it has no more", () => {
	const player = new Player();
	player.add([{ n: 0, set: { k: { kind: "key", error: "no", sync: 1 } } }, { n: 1, set: { k: { error: null, sync: 2 } } }]);
	player.go(1);
	assert.deepEqual(player.scene.get("k"), { kind: "key", sync: 2 });
	player.back();
	assert.deepEqual(player.scene.get("k"), { kind: "key", error: "no", sync: 1 });
});

test("moments that come a second time are left out", () => {
	const player = new Player();
	player.add(moments.slice(0, 3));
	player.add(moments);
	assert.equal(player.moments.length, 5);
});

test("few pods are shown one by one, and many as how many are alike", () => {
	const pods = (n, state) => Array.from({ length: n }, (_, i) => ({ name: `p${i}`, state }));
	assert.equal(group(pods(60, "ready"), 60).pods.length, 60);
	const many = group([...pods(700, "ready"), ...pods(300, "starting")], 60);
	assert.deepEqual(many, { pods: [], groups: [{ state: "ready", count: 700 }, { state: "starting", count: 300 }] });
});

test("what has no owner that is there stands by itself", () => {
	const scene = new Map(Object.entries({
		r: { kind: "replicaset", name: "web", namespace: "shop", owner: "gone" },
		p: { kind: "pod", name: "lost", state: "ready" },
	}));
	const { deployments } = lanes(scene);
	assert.deepEqual(deployments.map((d) => [d.id, d.sets.map((s) => s.name)]), [["alone", ["web"]], ["orphans", ["nobody's"]]]);
});

test("nodes stand in lanes of their own with the pods that they run, where one is not as all are", () => {
	const node = (name, more) => ({ kind: "node", name, state: "Ready=True", taints: "", range: "", ...more });
	const scene = new Map(Object.entries({ n10: node("node-10"), n9: node("node-9"),
		a: { kind: "pod", name: "a", node: "node-9" }, b: { kind: "pod", name: "b", node: "node-10" }, c: { kind: "pod", name: "c" } }));
	assert.deepEqual(lanes(scene).nodes, []);
	for (const more of [{ range: "10.9.0.0/28" }, { taints: "unreachable:NoSchedule" }, { state: "Ready=Unknown" }]) {
		scene.set("n10", node("node-10", more));
		assert.deepEqual(lanes(scene).nodes.map((n) => [n.name, n.members.map((p) => p.name)]), [["node-9", ["a"]], ["node-10", ["b"]]]);
	}
});

test("the tenth manager stands after the ninth", () => {
	const scene = new Map(["kcm-10", "kcm-9"].map((name) => [name, { kind: "manager", name, state: "waits" }]));
	assert.deepEqual(lanes(scene).managers.map((m) => m.name), ["kcm-9", "kcm-10"]);
});

test("a cache that shows other pods than the API server is behind", () => {
	const set = { members: [{ state: "ready" }, { state: "waiting" }, { state: "ending" }], key: { saw: 1 } };
	assert.equal(behind(set), "cache 1, API server 2");
	set.key.saw = 2;
	assert.equal(behind(set), "");
	assert.equal(behind({ members: [], key: {} }), "", "of a loop that has counted no pods");
});

test("facts are written as words", () => {
	assert.equal(facts({ kind: "ReplicaSet", want: 3, mayAct: false, delete: ["a", "b"] }), "want 3 · not may act · delete: a, b");
	assert.equal(facts({ change: [{ name: "web-1", from: 3, to: 2 }] }), "change: web-1 from 3 to 2");
});
