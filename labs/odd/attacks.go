package odd

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcm-book/kcm-book/labs/await"
)

// Attack is what a user with the rights of edit in one namespace does to others.
type Attack struct {
	Name string
	// Loops are those that it concerns.
	Loops []string
	// Lasts is how long the attacker writes, if not as long as usual.
	Lasts time.Duration

	do func(*attacker)
}

// manifest is an object, or a part of one.
type manifest = map[string]any

// Attacks has for each loop the worst that we could think of.
var Attacks = []Attack{
	{
		Name:  "5 ConfigMaps, each with references to 5,000 owners that are not there",
		Loops: collector,
		do: func(a *attacker) {
			a.many(5, func(i int) {
				a.create("configmaps", fmt.Sprint("a-", i), owned(5000, func(j int) manifest {
					return reference("v1", "ConfigMap", fmt.Sprint("o", j), fmt.Sprint("u-", i, "-", j))
				}))
			})
		},
	},
	{
		Name:  "3 ConfigMaps, each with 25 made-up UIDs, each under 121 names and one of a kind that is not there",
		Loops: collector,
		do: func(a *attacker) {
			a.many(3, func(i int) {
				a.create("configmaps", fmt.Sprint("a-", i), owned(25*121, func(j int) manifest {
					kind, version := "ConfigMap", "v1"
					if j%121 == 0 {
						kind, version = "Nope", "nope.example.com/v1"
					}
					return reference(version, kind, fmt.Sprint("o", j), fmt.Sprint("u-", i, "-", j/121))
				}))
			})
		},
	},
	{
		Name:  "a ConfigMap with references to 12,000 owners that are not there",
		Loops: collector,
		do: func(a *attacker) {
			a.create("configmaps", "a", owned(12000, func(j int) manifest {
				return reference("v1", "ConfigMap", fmt.Sprint("o", j), fmt.Sprint("u", j))
			}))
		},
	},
	{
		Name:  "3 ConfigMaps, each with references to 3,000 kinds that are not there",
		Loops: collector,
		do: func(a *attacker) {
			a.many(3, func(i int) {
				a.create("configmaps", fmt.Sprint("a-", i), owned(3000, func(j int) manifest {
					return reference(fmt.Sprintf("g%d.example.com/v1", j), fmt.Sprint("K", j), "o", fmt.Sprint("u-", i, "-", j))
				}))
			})
		},
	},
	{
		Name:  "a ConfigMap with 5,000 references is changed 20 times a second",
		Loops: collector,
		do: func(a *attacker) {
			a.create("configmaps", "a", owned(5000, func(j int) manifest {
				return reference("v1", "ConfigMap", fmt.Sprint("o", j), fmt.Sprint("u", j))
			}))
			a.until(20, func(i int) { a.patch("configmaps", "a", fmt.Sprintf(`{"data":{"a":"%d"}}`, i)) })
		},
	},
	{
		Name:  "an owner of 1,500 ConfigMaps with a finalizer is deleted in the foreground",
		Loops: collector,
		do: func(a *attacker) {
			a.create("configmaps", "owner", manifest{})
			owner, err := a.admin.CoreV1().ConfigMaps(attackers).Get(a.ctx, "owner", metav1.GetOptions{})
			if err != nil {
				return
			}
			a.many(1500, func(i int) {
				o := owned(1, func(int) manifest {
					r := reference("v1", "ConfigMap", "owner", string(owner.UID))
					r["blockOwnerDeletion"] = true
					return r
				})
				o["metadata"].(manifest)["finalizers"] = []string{"example.com/a"}
				a.create("configmaps", fmt.Sprint("a-", i), o)
			})
			a.remove("configmaps", "owner", manifest{"propagationPolicy": "Foreground"})
		},
	},
	{
		Name:  "2,000 ConfigMaps and Secrets with a finalizer are deleted",
		Loops: []string{garbage, "resourcequota-controller"},
		do: func(a *attacker) {
			a.many(1000, func(i int) {
				for _, resource := range []string{"configmaps", "secrets"} {
					a.create(resource, fmt.Sprint("a-", i), held())
				}
			})
			a.remove("configmaps", "", nil)
			a.remove("secrets", "", nil)
		},
	},
	{
		Name:  "a namespace is deleted with 1,500 ConfigMaps that have a finalizer",
		Loops: []string{"namespace-controller"},
		do: func(a *attacker) {
			a.many(1500, func(i int) {
				a.create("configmaps", fmt.Sprint("a-", i), held())
			})
			_ = a.admin.CoreV1().Namespaces().Delete(a.ctx, attackers, metav1.DeleteOptions{})
		},
	},
	{
		Name:  "5 Endpoints of 16,000 ports and 16,000 addresses (edit may not since 1.22)",
		Loops: []string{"endpointslice-mirroring-controller"},
		do: func(a *attacker) {
			a.may("endpoints")
			ports, addresses := make([]manifest, 16000), make([]manifest, 16000)
			for i := range ports {
				ports[i] = manifest{"name": fmt.Sprint("p", i), "port": i + 1}
				addresses[i] = manifest{"ip": fmt.Sprintf("10.9.%d.%d", i/250, i%250)}
			}
			a.many(5, func(i int) {
				name := fmt.Sprint("a-", i)
				a.create("services", name, manifest{"spec": manifest{"ports": []manifest{{"port": 80}}}})
				a.create("endpoints", name, manifest{"subsets": []manifest{{"ports": ports, "addresses": addresses}}})
			})
		},
	},
	{
		Name:  "300 Services that select the same 100 pods, whose labels change",
		Loops: services,
		do: func(a *attacker) {
			a.pods(100, "")
			a.many(300, func(i int) {
				a.create("services", fmt.Sprint("a-", i), service([]manifest{{"port": 80}}))
			})
			a.until(20, func(i int) { a.relabel(i%100, i/100) })
		},
	},
	{
		Name:  "300 Services with selectors of 2,000 labels, beside 100 pods that change",
		Loops: services,
		do: func(a *attacker) {
			a.pods(100, "nobody")
			selector := manifest{"app": "a"}
			for i := range 2000 {
				selector[fmt.Sprint("k", i)] = "a"
			}
			a.many(300, func(i int) {
				o := service([]manifest{{"port": 80}})
				o["spec"].(manifest)["selector"] = selector
				a.create("services", fmt.Sprint("a-", i), o)
			})
			a.until(50, func(i int) { a.relabel(i%100, i/100) })
		},
	},
	{
		Name:  "20 Services of 4,000 ports that select the same 100 pods",
		Loops: services,
		do: func(a *attacker) {
			a.pods(100, "")
			ports := make([]manifest, 4000)
			for i := range ports {
				ports[i] = manifest{"name": fmt.Sprint("p", i), "port": i + 1}
			}
			a.many(20, func(i int) {
				a.create("services", fmt.Sprint("a-", i), service(ports))
			})
			a.until(5, func(i int) { a.relabel(i%100, i/100) })
		},
	},
	{
		Name:  "1,000 ReplicaSets and ReplicationControllers of 50 pods that a quota refuses",
		Loops: replication,
		do: func(a *attacker) {
			a.quota("full", corev1.ResourcePods, 0)
			a.many(500, func(i int) {
				a.create("apps/v1/replicasets", fmt.Sprint("a-", i), workload(50, pod()))
				rc := workload(50, pod())
				rc["spec"].(manifest)["selector"] = labels
				a.create("replicationcontrollers", fmt.Sprint("a-", i), rc)
			})
		},
	},
	{
		Name:  "1,000 Deployments whose pods have no service account",
		Loops: []string{"deployment-controller", "replicaset-controller"},
		do: func(a *attacker) {
			a.many(1000, func(i int) { a.create("apps/v1/deployments", fmt.Sprint("a-", i), workload(50, failing())) })
		},
	},
	{
		Name:  "40 Deployments with annotations of 250 KB, which are rolled out 5 times",
		Loops: []string{"deployment-controller"},
		do: func(a *attacker) {
			a.many(40, func(i int) {
				o := workload(0, pod())
				o["metadata"] = manifest{"annotations": manifest{"a": strings.Repeat("a", 250_000)}}
				a.create("apps/v1/deployments", fmt.Sprint("a-", i), o)
			})
			a.many(200, func(i int) {
				a.rollOut(fmt.Sprint("a-", i%40), i/40)
			})
		},
	},
	{
		Name:  "100 DaemonSets whose pods have no service account",
		Loops: []string{"daemonset-controller"},
		do: func(a *attacker) {
			a.many(100, func(i int) {
				o := workload(0, failing())
				delete(o["spec"].(manifest), "replicas")
				a.create("apps/v1/daemonsets", fmt.Sprint("a-", i), o)
			})
		},
	},
	{
		Name:  "500 Jobs whose pods have no service account",
		Loops: []string{"job-controller"},
		do: func(a *attacker) {
			a.many(500, func(i int) {
				a.create("batch/v1/jobs", fmt.Sprint("a-", i), job(manifest{"parallelism": 50, "completions": 50}, failing()))
			})
		},
	},
	{
		Name:  "30 Jobs of 100,000 indexes and 20 rules of success with 8,000 intervals each, whose pods are refused",
		Loops: []string{"job-controller"},
		do: func(a *attacker) {
			var indexes strings.Builder
			for i := range 8000 {
				fmt.Fprintf(&indexes, "%d,", 3*i)
			}
			rules := make([]manifest, 20)
			for i := range rules {
				rules[i] = manifest{"succeededIndexes": indexes.String()[:indexes.Len()-1], "succeededCount": 8000}
			}
			a.many(30, func(i int) {
				a.create("batch/v1/jobs", fmt.Sprint("a-", i), job(manifest{
					"parallelism": 10000, "completions": 100000, "completionMode": "Indexed",
					"successPolicy": manifest{"rules": rules},
				}, failing()))
			})
		},
	},
	{
		Name:  "800 Jobs that end at once, with a finalizer and no time to stay",
		Loops: []string{"ttl-after-finished-controller", "job-controller"},
		do: func(a *attacker) {
			a.many(800, func(i int) {
				o := job(manifest{"completions": 0, "parallelism": 0, "ttlSecondsAfterFinished": 0}, pod())
				o["metadata"] = manifest{"finalizers": []string{"example.com/a"}}
				a.create("batch/v1/jobs", fmt.Sprint("a-", i), o)
			})
		},
	},
	{
		Name:  "500 CronJobs each minute, whose Jobs' pods are refused",
		Loops: []string{"cronjob-controller", "job-controller"},
		Lasts: 80 * time.Second,
		do: func(a *attacker) {
			a.many(500, func(i int) { a.create("batch/v1/cronjobs", fmt.Sprint("a-", i), cronJob("* * * * *")) })
		},
	},
	{
		Name:  "1,000 CronJobs whose moment never comes",
		Loops: []string{"cronjob-controller"},
		do: func(a *attacker) {
			a.many(1000, func(i int) { a.create("batch/v1/cronjobs", fmt.Sprint("a-", i), cronJob("0 0 31 2 *")) })
		},
	},
	{
		Name:  "200 ReplicaSets and 50 DaemonSets with selectors of 2,000 requirements, beside 100 pods that change",
		Loops: []string{"replicaset-controller", "daemonset-controller"},
		do: func(a *attacker) {
			var requirements []manifest
			for i := range 2000 {
				r := manifest{"key": fmt.Sprint("k", i), "operator": "NotIn", "values": []string{"a"}}
				requirements = append(requirements, r)
			}
			selector := manifest{"matchLabels": manifest{"app": "none"}, "matchExpressions": requirements}
			a.pods(100, "nobody")
			a.many(250, func(i int) {
				o, resource := workload(0, pod()), "apps/v1/replicasets"
				o["spec"].(manifest)["selector"] = selector
				o["spec"].(manifest)["template"].(manifest)["metadata"] = manifest{"labels": manifest{"app": "none"}}
				if i >= 200 {
					delete(o["spec"].(manifest), "replicas")
					resource = "apps/v1/daemonsets"
				}
				a.create(resource, fmt.Sprint("a-", i), o)
			})
			a.until(50, func(i int) {
				a.patch("pods", fmt.Sprint("a-", i%100), fmt.Sprintf(`{"metadata":{"labels":{"i":"%d"}}}`, i))
			})
		},
	},
	{
		Name:  "200 ReplicaSets and ReplicationControllers that select the same pods, which come without an owner",
		Loops: replication,
		do: func(a *attacker) {
			a.many(100, func(i int) {
				a.create("apps/v1/replicasets", fmt.Sprint("a-", i), workload(2, pod()))
				rc := workload(2, pod())
				rc["spec"].(manifest)["selector"] = labels
				a.create("replicationcontrollers", fmt.Sprint("a-", i), rc)
			})
			a.until(30, func(i int) {
				a.create("pods", fmt.Sprint("orphan-", i), manifest{"metadata": manifest{"labels": labels}, "spec": pod()})
			})
		},
	},
	{
		Name:  "a ReplicaSet of 300 pods, all of which are deleted again and again",
		Loops: []string{"replicaset-controller", "endpointslice-controller"},
		do: func(a *attacker) {
			a.create("services", "a", service([]manifest{{"port": 80}}))
			a.create("apps/v1/replicasets", "a", workload(300, pod()))
			a.until(1, func(int) { a.remove("pods", "", nil) })
		},
	},
	{
		Name:  "1,000 pods with a finalizer, bound to nodes that are not there",
		Loops: []string{"pod-garbage-collector-controller"},
		Lasts: 60 * time.Second,
		do: func(a *attacker) {
			a.awaitAccount()
			a.many(1000, func(i int) {
				spec := pod()
				spec["nodeName"] = fmt.Sprint("absent-", i)
				o := held()
				o["spec"] = spec
				a.create("pods", fmt.Sprint("a-", i), o)
			})
		},
	},
	{
		Name:  "1,500 token Secrets, a third of them of accounts that are not there",
		Loops: []string{"serviceaccount-token-controller"},
		do: func(a *attacker) {
			a.awaitAccount()
			a.many(1500, func(i int) {
				account := []string{"default", attackers, "missing"}[i%3]
				a.create("secrets", fmt.Sprint("a-", i), manifest{
					"type":     "kubernetes.io/service-account-token",
					"metadata": manifest{"annotations": manifest{"kubernetes.io/service-account.name": account}},
				})
			})
		},
	},
	{
		Name: "1,000 ServiceAccounts come and go, and the default one and the root CA are deleted again and again",
		Loops: []string{
			"serviceaccount-controller", "root-ca-certificate-publisher-controller", "serviceaccount-token-controller",
		},
		do: func(a *attacker) {
			a.many(1000, func(i int) {
				name := fmt.Sprint("a-", i)
				a.create("serviceaccounts", name, manifest{})
				a.remove("serviceaccounts", "default", nil)
				a.remove("configmaps", "kube-root-ca.crt", nil)
				a.remove("serviceaccounts", name, nil)
			})
		},
	},
	{
		Name:  "30 quotas over 1,500 ConfigMaps, which come and go",
		Loops: []string{"resourcequota-controller"},
		do: func(a *attacker) {
			for i := range 30 {
				a.quota(fmt.Sprint("q-", i), "count/configmaps", 1000+int64(i))
			}
			a.many(1500, func(i int) { a.create("configmaps", fmt.Sprint("a-", i), manifest{}) })
			a.until(30, func(i int) {
				a.create("configmaps", fmt.Sprint("b-", i), manifest{})
				a.remove("configmaps", fmt.Sprint("b-", i), nil)
			})
		},
	},
	{
		Name:  "3,000 events",
		Loops: []string{garbage, "resourcequota-controller"},
		do: func(a *attacker) {
			a.many(3000, func(i int) {
				a.create("events", fmt.Sprint("a-", i), manifest{
					"involvedObject": manifest{"namespace": attackers}, "message": strings.Repeat("a", 1000),
				})
			})
		},
	},
	{
		Name:  "a Deployment, its Service and a pod of it are changed 60 times a second each",
		Loops: []string{"deployment-controller", "endpoints-controller"},
		do: func(a *attacker) {
			a.pods(1, "")
			a.create("apps/v1/deployments", "a", workload(3, pod()))
			a.create("services", "a", service([]manifest{{"port": 80}}))
			a.until(60, func(i int) {
				a.rollOut("a", i)
				a.patch("services", "a", fmt.Sprintf(`{"spec":{"ports":[{"port":%d}]}}`, 1+i%60_000))
				a.relabel(0, i)
			})
		},
	},
}

const garbage = "garbage-collector-controller"

var (
	collector   = []string{garbage}
	services    = []string{"endpoints-controller", "endpointslice-controller"}
	replication = []string{"replicaset-controller", "replicationcontroller-controller"}
	labels      = manifest{"app": "a"}
)

// owned is an object with so many references to owners.
func owned(n int, reference func(i int) manifest) manifest {
	references := make([]manifest, n)
	for i := range references {
		references[i] = reference(i)
	}
	return manifest{"metadata": manifest{"ownerReferences": references}}
}

func reference(version, kind, name, uid string) manifest {
	return manifest{"apiVersion": version, "kind": kind, "name": name, "uid": uid}
}

// pod is a spec that no scheduler minds, and failing one that the API server
// refuses.
func pod() manifest {
	return manifest{"schedulerName": "nobody", "containers": []manifest{{"name": "web", "image": "web:1"}}}
}

func failing() manifest {
	spec := pod()
	spec["serviceAccountName"] = "missing"
	return spec
}

// held is an object that stays when it is deleted.
func held() manifest {
	return manifest{"metadata": manifest{"finalizers": []string{"example.com/a"}}}
}

// service selects all pods, and takes no address of the cluster's.
func service(ports []manifest) manifest {
	return manifest{"spec": manifest{"clusterIP": "None", "selector": labels, "ports": ports}}
}

// workload is a Deployment or what has the same fields.
func workload(replicas int, spec manifest) manifest {
	return manifest{"spec": manifest{
		"replicas": replicas,
		"selector": manifest{"matchLabels": labels},
		"template": manifest{"metadata": manifest{"labels": labels}, "spec": spec},
	}}
}

func job(fields, spec manifest) manifest {
	spec["restartPolicy"] = "Never"
	fields["template"] = manifest{"spec": spec}
	return manifest{"spec": fields}
}

func cronJob(schedule string) manifest {
	return manifest{"spec": manifest{"schedule": schedule, "jobTemplate": job(manifest{}, failing())}}
}

// pods creates pods; those of the default scheduler will run.
func (a *attacker) pods(n int, scheduler string) {
	a.awaitAccount()
	a.many(n, func(i int) {
		spec := pod()
		spec["schedulerName"] = scheduler
		a.create("pods", fmt.Sprint("a-", i), manifest{"metadata": manifest{"labels": labels}, "spec": spec})
	})
}

// relabel has a pod selected by all that select it, or by none, in turn.
func (a *attacker) relabel(pod, turn int) {
	a.patch("pods", fmt.Sprint("a-", pod), fmt.Sprintf(`{"metadata":{"labels":{"app":"%s"}}}`, []string{"b", "a"}[turn%2]))
}

// rollOut gives a Deployment another template.
func (a *attacker) rollOut(name string, template int) {
	merge := `{"spec":{"template":{"metadata":{"annotations":{"a":"%d"}}}}}`
	a.patch("apps/v1/deployments", name, fmt.Sprintf(merge, template))
}

// awaitAccount waits until pods are let in.
func (a *attacker) awaitAccount() {
	_ = await.Until(a.ctx, 50*time.Millisecond, writes, "the namespace has its account", func(ctx context.Context) error {
		_, err := a.admin.CoreV1().ServiceAccounts(attackers).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// quota has the administrator limit something.
func (a *attacker) quota(name string, of corev1.ResourceName, hard int64) {
	_, _ = a.admin.CoreV1().ResourceQuotas(attackers).Create(a.ctx, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{of: *resource.NewQuantity(hard, resource.DecimalSI)}},
	}, metav1.CreateOptions{})
}

// may gives the attacker a right that edit has not.
func (a *attacker) may(write string) {
	_, _ = a.admin.RbacV1().Roles(attackers).Create(a.ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: write},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{write}, Verbs: []string{"create"}}},
	}, metav1.CreateOptions{})
	_, _ = a.admin.RbacV1().RoleBindings(attackers).Create(a.ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: write},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: write},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: attackers, Namespace: attackers}},
	}, metav1.CreateOptions{})
}
