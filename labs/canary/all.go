package canary

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const template = `template: {metadata: {labels: {app: $NAME}}, spec: {containers: [{name: web, image: "web:1"}]}}`

// All has a canary for each loop of kcm but those of a cloud. Two for the garbage
// collector are for its two queues, and two for a loop that makes pods are for what
// it hears of the object and of the pods.
var All = []Canary{
	{
		Loop: "serviceaccount-token-controller", Does: "a Secret for a token gets one",
		do: create(`{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token,
			metadata: {annotations: {kubernetes.io/service-account.name: default}}}`),
		seen: has("data", "token"),
	},
	{
		Loop: "serviceaccount-controller", Does: "the default account that was deleted comes again",
		do: remove("ServiceAccount v1", "default", metav1.DeletePropagationBackground), seen: back("ServiceAccount v1", "default"),
	},
	{
		Loop: "root-ca-certificate-publisher-controller", Does: "the root CA that was deleted comes again",
		do: remove("ConfigMap v1", "kube-root-ca.crt", metav1.DeletePropagationBackground), seen: back("ConfigMap v1", "kube-root-ca.crt"),
	},
	{
		Loop: "replicationcontroller-controller", Does: "a ReplicationController gets its pod",
		do:   create(`{apiVersion: v1, kind: ReplicationController, spec: {replicas: 1, selector: {app: $NAME}, ` + template + `}}`),
		seen: some("Pod v1", owned),
	},
	{
		Loop: "replicaset-controller", Does: "a ReplicaSet gets its pod",
		do:   create(`{apiVersion: apps/v1, kind: ReplicaSet, spec: {replicas: 1, selector: {matchLabels: {app: $NAME}}, ` + template + `}}`),
		seen: some("Pod v1", owned),
	},
	{
		Loop: "replicaset-controller", Does: "a ReplicaSet counts its pod",
		do:   create(`{apiVersion: apps/v1, kind: ReplicaSet, spec: {replicas: 1, selector: {matchLabels: {app: $NAME}}, ` + template + `}}`),
		seen: is("with a pod", func(o object) bool { return field(o, "status", "replicas") == int64(1) }),
	},
	{
		Loop: "deployment-controller", Does: "a Deployment gets its ReplicaSet",
		do:   create(`{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 0, selector: {matchLabels: {app: $NAME}}, ` + template + `}}`),
		seen: some("ReplicaSet v1 apps", owned),
	},
	{
		Loop: "namespace-controller", Does: "a namespace that was deleted goes",
		prepare: create(`{apiVersion: v1, kind: Namespace, metadata: {name: $NAME}}`),
		do:      remove("Namespace v1", "", metav1.DeletePropagationBackground), seen: gone,
	},
	{
		Loop: "garbage-collector-controller", Does: "what a deleted object owned goes",
		prepare: both(create(`{apiVersion: v1, kind: ConfigMap}`), createOwned(`{apiVersion: v1, kind: ConfigMap, metadata: {name: $NAME-owned}}`)),
		do:      remove("ConfigMap v1", "", metav1.DeletePropagationBackground), seen: gone,
	},
	{
		Loop: "garbage-collector-controller", Does: "what a deleted object owned is let go of",
		prepare: both(create(`{apiVersion: v1, kind: ConfigMap}`), createOwned(`{apiVersion: v1, kind: ConfigMap, metadata: {name: $NAME-owned}}`)),
		do:      remove("ConfigMap v1", "", metav1.DeletePropagationOrphan), seen: is("let go of", func(o object) bool { return len(o.GetOwnerReferences()) == 0 }),
	},
	{
		Loop: "pod-garbage-collector-controller", Does: "a terminating pod that no node has is marked", Period: 20 * time.Second,
		prepare: create(`{apiVersion: v1, kind: Pod, metadata: {finalizers: [kcm-book.io/look]},
			spec: {schedulerName: nobody, containers: [{name: web, image: "web:1"}]}}`),
		do: remove("Pod v1", "", metav1.DeletePropagationBackground), seen: is("marked", func(o object) bool { return field(o, "status", "phase") == "Failed" }),
	},
	{
		Loop: "token-cleaner-controller", Does: "a bootstrap token that has expired goes",
		do: create(`{apiVersion: v1, kind: Secret, type: bootstrap.kubernetes.io/token, metadata: {namespace: kube-system, name: bootstrap-token-$TOKEN},
			stringData: {token-id: $TOKEN, token-secret: 0123456789abcdef, expiration: $NOW}}`),
		seen: gone,
	},
	{
		Loop: "ttl-after-finished-controller", Does: "a Job that has ended goes",
		prepare: create(`{apiVersion: batch/v1, kind: Job, spec: {managedBy: kcm-book.io/nobody, ttlSecondsAfterFinished: 0, ` + jobTemplate + `}}`),
		do: setStatus(`{startTime: $NOW, completionTime: $NOW, succeeded: 1, uncountedTerminatedPods: {}, conditions: [
			{type: SuccessCriteriaMet, status: "True", lastTransitionTime: $NOW}, {type: Complete, status: "True", lastTransitionTime: $NOW}]}`),
		seen: gone,
	},
	{
		Loop: "resourcequota-controller", Does: "a quota gets its sum",
		do:   create(`{apiVersion: v1, kind: ResourceQuota, spec: {hard: {configmaps: 10, secrets: 10}}}`),
		seen: has("status", "used", "secrets"),
	},
	{
		Loop: "daemonset-controller", Does: "a DaemonSet gets its pods",
		do:   create(`{apiVersion: apps/v1, kind: DaemonSet, spec: {selector: {matchLabels: {app: $NAME}}, ` + template + `}}`),
		seen: some("Pod v1", owned),
	},
	{
		Loop: "daemonset-controller", Does: "a DaemonSet counts its pods",
		do:   create(`{apiVersion: apps/v1, kind: DaemonSet, spec: {selector: {matchLabels: {app: $NAME}}, ` + template + `}}`),
		seen: is("with a pod that is up to date", func(o object) bool { return field(o, "status", "updatedNumberScheduled") != nil }),
	},
	{
		Loop: "job-controller", Does: "a Job gets its pod",
		do:   create(`{apiVersion: batch/v1, kind: Job, spec: {` + jobTemplate + `}}`),
		seen: some("Pod v1", owned),
	},
	{
		Loop: "cronjob-controller", Does: "a CronJob forgets a Job that is not there",
		prepare: create(`{apiVersion: batch/v1, kind: CronJob, spec: {suspend: true, schedule: "0 0 1 1 *", jobTemplate: {spec: {` + jobTemplate + `}}}}`),
		do:      setStatus(`{active: [{apiVersion: batch/v1, kind: Job, namespace: $NAMESPACE, name: $NAME, uid: $NAME}]}`),
		seen:    is("without it", func(o object) bool { return field(o, "status", "active") == nil }),
	},
	{
		Loop: "endpoints-controller", Does: "a Service gets Endpoints",
		do: create(service), seen: some("Endpoints v1", func(t *try, o object) bool { return o.GetName() == t.name }),
	},
	{
		Loop: "endpointslice-controller", Does: "a Service gets a slice",
		do: create(service), seen: some("EndpointSlice v1 discovery.k8s.io", labelled("kubernetes.io/service-name")),
	},
	{
		Loop: "endpointslice-mirroring-controller", Does: "Endpoints that a user wrote get a slice",
		prepare: create(`{apiVersion: v1, kind: Service, spec: {ports: [{port: 80}]}}`),
		do:      create(`{apiVersion: v1, kind: Endpoints, subsets: [{addresses: [{ip: 192.0.2.1}], ports: [{port: 80}]}]}`),
		seen:    some("EndpointSlice v1 discovery.k8s.io", labelled("kubernetes.io/service-name")),
	},
}

const (
	jobTemplate = `template: {spec: {restartPolicy: Never, containers: [{name: web, image: "web:1"}]}}`
	service     = `{apiVersion: v1, kind: Service, spec: {selector: {app: $NAME}, ports: [{port: 80}]}}`
)
