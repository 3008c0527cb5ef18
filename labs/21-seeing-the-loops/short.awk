# The trace of one namespace, a short line for each step: milliseconds since the first step, the loop, the number of the
# sync (the first is 1), and what the step says. Left out are the beginning of a sync, its end without an error, plans that
# change no size and no number of pods, and keys that are queued at once.
#
#     awk -f labs/21-seeing-the-loops/short.awk /tmp/trace-21.jsonl

function text(name) { return match($0, "\"" name "\":\"[^\"]*\"") ? part(name, 4, 5) : "" }
function number(name) { return match($0, "\"" name "\":[0-9.]+") ? part(name, 3, 3) : 0 }
function part(name, before, around) { return substr($0, RSTART + length(name) + before, RLENGTH - length(name) - around) }
function seconds() { return substr(text("at"), 12, 2) * 3600 + substr(text("at"), 15, 2) * 60 + substr(text("at"), 18) }
function facts(    all) {
	all = $0
	sub(/.*"facts":/, "", all)
	gsub(/[][{}"]/, "", all)
	gsub(/,?(maxTotal|minAvailable|version|terminating|failed|paused|name|new|mayAct:true)(:[^,]*)?/, "", all)
	sub(/replicaSets:,?/, "", all); sub(/change:,?/, "change ", all)
	gsub(/:/, " ", all); gsub(/,/, ", ", all)
	return all
}

BEGIN { print "   ms loop       sync" }
NR == 1 { first = seconds() }
{ what = text("what"); says = "" }
what == "begun" && !before { before = number("sync") - 1 }
what == "queued" && number("seconds") > 0 { says = "after " number("seconds") " s" }
what == "observed" || what == "decided" && /"create"|"delete"|"change"/ { says = facts() }
what == "done" { says = text("request") " " number("code"); sub(/ \/.*\/namespaces\/[^\/]*\//, " ", says) }
what == "ended" { says = text("error") }
what == "lost" { says = number("lost") }
says != "" {
	loop = text("loop"); sub(/-controller$/, "", loop)
	sync = number("sync") ? number("sync") - before : ""
	printf "%5.0f %-10s %4s %-8s %s\n", 1000 * (seconds() - first), loop, sync, what, says
}
