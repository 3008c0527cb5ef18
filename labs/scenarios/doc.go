// Package scenarios says what a controller manager does, as a user of the API
// sees it. Each scenario is a file that any manager must pass: kcm, and with
// REFERENCE=1 in the environment the original kube-controller-manager, on the
// embedded cluster or with CLUSTER=kind on a kind cluster. `make compare` runs
// them with both and shows the results side by side.
//
// A scenario is a testscript: its name is the sentence that it proves, its
// lines are the verbs below, and files that it needs follow after the last
// line. It works in a namespace of its own. This is a whole one:
//
//	create replicaset.yaml '{spec: {replicas: 3}}'
//	await replicaset/web 'self.status.readyReplicas == 3'
//	delete 'pod[owner(self) == "ReplicaSet/web"]'
//	await replicaset/web 'self.status.readyReplicas == 2'
//	await replicaset/web 'self.status.readyReplicas == 3'
//	event replicaset/web replicaset-controller Normal SuccessfulCreate 'Created pod: web-\w+' 4
//
// To add one, write such a file into one of the folders and run
//
//	go test ./labs/scenarios -run 'TestScenarios/replication/.*/the-name-of-the-file'
//
// and the same with REFERENCE=1. The scenarios in replication/ run twice, with
// $KIND, $RESOURCE and $COMPONENT set for ReplicaSets and for
// ReplicationControllers; what is about one of the two is in the folder of its
// name.
//
// # Objects
//
// An OBJECT is written as kind/name, such as deployment/web, or as
// kind[EXPR], the first by name for which EXPR is true, such as
// 'replicaset[image(self) == "web:2"]'. FILE is one of the scenario's own files
// or of manifests/. OVERLAY is a strategic merge patch in YAML.
//
// # Expressions
//
// An EXPR is in CEL, the language in which Kubernetes' API writes its own
// validation rules. The object is self. The lists pods, replicasets,
// deployments, replicationcontrollers, serviceaccounts, secrets, configmaps,
// events and leases hold what is in the namespace; requests what the audit log says about
// it (fields user, verb, group, resource, subresource, name, code), and vars what let has
// stored. Counts in a status that are zero are there as 0, though the API
// leaves them out, and so are empty labels, annotations, ownerReferences,
// finalizers and conditions. These functions are added to CEL's:
//
//	image(o)            the first container's image, of a pod or of a template
//	condition(o, type)  the condition in the status; its fields are "" if there is none
//	owner(o)            the controlling owner as "Kind/name", or ""
//	revision(o)         the annotation deployment.kubernetes.io/revision as a number, or 0
//	ready(pod)          whether a pod is Ready and not being deleted
//	ended(pod)          whether all containers of a pod have ended for good
//	rolledOut(o)        whether all pods of a deployment are of its present template and available, and its status says so
//	sum(list)           of numbers
//
// # Verbs
//
//	create FILE [OVERLAY]            create the objects in FILE, changed by OVERLAY
//	patch [--status] OBJECT OVERLAY  change an object, or its status
//	delete [--cascade=HOW] OBJECT    delete an object; HOW is orphan, background (default) or foreground
//	kubectl ARG...                   run kubectl in the namespace; stdout and stderr check what it says;
//	                                 it must succeed, or fail if there is a ! before it
//	retry ARG...                     run kubectl until it succeeds, or until it fails if there is a ! before it
//	let NAME [OBJECT] EXPR           store a value as vars.NAME
//
//	await [OBJECT] EXPR              wait until it is true, and the object's status is not about an earlier spec;
//	                                 30 seconds, 90 on kind
//	settle [OBJECT]                  wait until the loops have seen what there is, and one has nothing more to do about the object
//	event OBJECT COMPONENT TYPE REASON MESSAGE [COUNT]
//	                                 wait for COUNT (1) events; MESSAGE is a regular expression for the whole text
//
//	always EXPR                      EXPR was true in every state since the beginning or the last mark
//	never EXPR                       EXPR was false in every such state
//	sequence [OBJECT] EXPR VALUE...  the values that EXPR has had, repetitions left out, were these;
//	                                 ... stands for any number of any values
//	before EXPR EXPR                 a state in which the first was true came before any in which the second was
//	mark                             let the four above look back no further than to here
//
//	start NAME FLAG...               start a manager of the scenario's own, whose Lease is in the namespace
//	signal NAME SIGNAL               send TERM, KILL, STOP or CONT
//	log NAME REGEXP                  wait until it has logged that
//	get NAME USER PATH [CODE [REGEXP]]
//	                                 wait until it answers a request of USER with CODE (200) and with that; then see stdout. USER is admin,
//	                                 account (the default ServiceAccount, which may do little), forger (has made up a token) or anonymous
//	exits NAME CODE                  wait until it has ended, with that exit code
//
// The conditions [kind] and [reference] tell where a scenario runs, as in
// "[kind] skip 'a node of kind has room for 110 pods'".
package scenarios
