// Package play plays scripts that say what a controller manager does, as a user of the API sees it: scenarios, labs,
// the demo, and scripts of your own.
//
// A script is a [testscript]: lines of verbs, and files that it needs after the last line. This is a whole one:
//
//	create replicaset.yaml '{spec: {replicas: 3}}'
//	await replicaset/web 'self.status.readyReplicas == 3'
//	delete 'pod[owner(self) == "ReplicaSet/web"]'
//	await replicaset/web 'self.status.readyReplicas == 2'
//	await replicaset/web 'self.status.readyReplicas == 3'
//	event replicaset/web replicaset-controller Normal SuccessfulCreate 'Created pod: web-\w+' 4
//
// `make play FILE=my.txtar` plays yours with kcm, and with REFERENCE=1 with the original kube-controller-manager;
// `make play` lists the verbs, as [Verbs] does. A mistake in a script is told with its line and column before anything
// starts.
//
// # Two faces
//
// A scenario is a script without steps: its name is the sentence that it proves, a manager runs all loops already, and
// it works in a namespace of its own. go test ./labs/scenarios plays them.
//
// A lab has steps, whose names are sentences for a reader. It starts its managers itself, and a [Narrator] tells what
// happens.
//
// What is guaranteed in both: nothing waits without a deadline, and a wait that was in vain says what was seen last.
// What was true before the script's last change is never taken for its effect. While the API server is away, create,
// patch and delete are tried again. What a script has started has ended when the script has, also after Ctrl-C.
//
// # Objects
//
// An OBJECT is written as kind/name, such as deployment/web, or as kind[EXPR], the first by name for which EXPR is
// true, such as 'replicaset[image(self) == "web:2"]'. What changes such an object waits until there is one. FILE is one
// of the script's own files or of those beside it. OVERLAY is a strategic merge patch in YAML.
//
// # Expressions
//
// An EXPR is in CEL, the language in which Kubernetes' API writes its own validation rules. The object is self. The
// lists pods, replicasets, deployments and those of all other kinds of the API hold what is in the namespace, and
// created.pods and so on what has come since the last mark. vars holds what let has stored; stdout and stderr are what
// the last kubectl, kcm, get or log has said. requests is what the audit log says about the namespace since the script
// began (fields user, groups, agent, verb, group, resource, subresource, namespace, name, code, time, and sinceMark).
// Counts in a status that are zero are there as 0, though the API leaves them out, and so are empty labels,
// annotations, ownerReferences, finalizers and conditions. These functions are added to CEL's:
//
//	image(o)            the first container's image, of a pod or of a template
//	condition(o, type)  the condition in the status; its fields are "" if there is none
//	owner(o)            the controlling owner as "Kind/name", or ""
//	revision(o)         the annotation deployment.kubernetes.io/revision as a number, or 0
//	active(pod)         whether a pod has not ended for good and is not being deleted
//	ready(pod)          whether a pod is Ready and not being deleted
//	ended(pod)          whether all containers of a pod have ended for good
//	rolledOut(o)        whether a deployment's status says that all its pods are of its present template and available
//	sum(list)           of numbers
//	metric(text, name)  a figure in the text of /metrics, or 0
//	header(token), claims(token)  the parts of a JSON Web Token
//
// # Conditions
//
// [kind], [embedded], [kcm], [reference] and [accounts] before a line, with a ! or without, tell where it is carried
// out, as in "[kind] skip 'a node of kind has room for 110 pods'". The verb only leaves out the rest of a step.
// accounts is where each loop has an account of its own, as it has from chapter 05 on.
//
// [testscript]: https://pkg.go.dev/github.com/rogpeppe/go-internal/testscript
package play
