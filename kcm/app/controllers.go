package app

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller/bootstrapsigner"
	"github.com/kcm-book/kcm-book/kcm/controller/certificates/approver"
	"github.com/kcm-book/kcm-book/kcm/controller/certificates/cleaner"
	"github.com/kcm-book/kcm-book/kcm/controller/certificates/signer"
	"github.com/kcm-book/kcm-book/kcm/controller/cloudnodelifecycle"
	"github.com/kcm-book/kcm-book/kcm/controller/clusterroleaggregation"
	"github.com/kcm-book/kcm-book/kcm/controller/cronjob"
	"github.com/kcm-book/kcm-book/kcm/controller/daemon"
	"github.com/kcm-book/kcm-book/kcm/controller/deployment"
	"github.com/kcm-book/kcm-book/kcm/controller/endpoint"
	"github.com/kcm-book/kcm-book/kcm/controller/endpointslice"
	"github.com/kcm-book/kcm-book/kcm/controller/endpointslicemirroring"
	"github.com/kcm-book/kcm-book/kcm/controller/garbagecollector"
	"github.com/kcm-book/kcm-book/kcm/controller/job"
	"github.com/kcm-book/kcm-book/kcm/controller/legacytokencleaner"
	"github.com/kcm-book/kcm-book/kcm/controller/namespace"
	"github.com/kcm-book/kcm-book/kcm/controller/nodeipam"
	"github.com/kcm-book/kcm-book/kcm/controller/nodelifecycle"
	"github.com/kcm-book/kcm-book/kcm/controller/podgc"
	"github.com/kcm-book/kcm-book/kcm/controller/replication"
	"github.com/kcm-book/kcm-book/kcm/controller/resourcequota"
	"github.com/kcm-book/kcm-book/kcm/controller/rootca"
	"github.com/kcm-book/kcm-book/kcm/controller/serviceaccount"
	"github.com/kcm-book/kcm-book/kcm/controller/tainteviction"
	"github.com/kcm-book/kcm-book/kcm/controller/tokencleaner"
	"github.com/kcm-book/kcm-book/kcm/controller/trustbundle"
	"github.com/kcm-book/kcm-book/kcm/controller/ttl"
	"github.com/kcm-book/kcm-book/kcm/controller/ttlafterfinished"
)

// NewControllerDescriptors returns a descriptor for each controller, in the
// order in which they are built. Names, aliases and accounts are those of
// kube-controller-manager; a name that was ever published stays.
func NewControllerDescriptors() []*ControllerDescriptor {
	return mustBeDistinct([]*ControllerDescriptor{
		{
			name: "serviceaccount-token-controller", aliases: []string{"serviceaccount-token"},
			account: "tokens-controller", constructor: newServiceAccountToken, reads: serviceaccount.Reads,
			requiresSpecialHandling: true,
		},
		{
			name: "serviceaccount-controller", aliases: []string{"serviceaccount"},
			account: "service-account-controller", constructor: newServiceAccount,
		},
		{
			name: "root-ca-certificate-publisher-controller", aliases: []string{"root-ca-cert-publisher"},
			account: "root-ca-cert-publisher", constructor: newRootCAPublisher,
		},
		{
			name: "replicationcontroller-controller", aliases: []string{"replicationcontroller"},
			account: "replication-controller", constructor: newReplication, reads: replication.Reads,
		},
		{
			name: "replicaset-controller", aliases: []string{"replicaset"},
			account: "replicaset-controller", constructor: newReplicaSet, reads: replication.Reads,
		},
		{
			name: "deployment-controller", aliases: []string{"deployment"},
			account: "deployment-controller", constructor: newDeployment, reads: deployment.Reads,
		},
		{
			name: "namespace-controller", aliases: []string{"namespace"},
			account: "namespace-controller", constructor: newNamespace,
		},
		{
			name: "garbage-collector-controller", aliases: []string{"garbagecollector"},
			account: "generic-garbage-collector", constructor: newGarbageCollector,
		},
		{
			name: "pod-garbage-collector-controller", aliases: []string{"podgc"},
			account: "pod-garbage-collector", constructor: newPodGC, reads: podgc.Reads,
		},
		{
			name: "token-cleaner-controller", aliases: []string{"tokencleaner"},
			account: "token-cleaner", constructor: newTokenCleaner, reads: tokencleaner.Reads,
			disabledByDefault: true,
		},
		{
			name: "ttl-after-finished-controller", aliases: []string{"ttl-after-finished"},
			account: "ttl-after-finished-controller", constructor: newTTLAfterFinished,
		},
		{
			name: "resourcequota-controller", aliases: []string{"resourcequota"},
			account: "resourcequota-controller", constructor: newResourceQuota, reads: resourcequota.Reads,
		},
		{
			name: "daemonset-controller", aliases: []string{"daemonset"},
			account: "daemon-set-controller", constructor: newDaemonSet, reads: daemon.Reads,
		},
		{
			name: "job-controller", aliases: []string{"job"},
			account: "job-controller", constructor: newJob, reads: job.Reads,
		},
		{
			name: "cronjob-controller", aliases: []string{"cronjob"},
			account: "cronjob-controller", constructor: newCronJob, reads: cronjob.Reads,
		},
		{
			name: "node-ipam-controller", aliases: []string{"nodeipam"},
			account: "node-controller", constructor: newNodeIPAM,
		},
		{
			name: "node-lifecycle-controller", aliases: []string{"nodelifecycle"},
			account: "node-controller", constructor: newNodeLifecycle, reads: nodelifecycle.Reads,
		},
		{
			name:    "taint-eviction-controller",
			account: "node-controller", constructor: newTaintEviction, reads: tainteviction.Reads,
		},
		{
			name: "ttl-controller", aliases: []string{"ttl"},
			account: "ttl-controller", constructor: newTTL,
		},
		{
			name: "bootstrap-signer-controller", aliases: []string{"bootstrapsigner"},
			account: "bootstrap-signer", constructor: newBootstrapSigner, reads: bootstrapsigner.Reads,
			disabledByDefault: true,
		},
		{
			name: "certificatesigningrequest-signing-controller", aliases: []string{"csrsigning"},
			account: "certificate-controller", constructor: newCSRSigning,
		},
		{
			name: "certificatesigningrequest-approving-controller", aliases: []string{"csrapproving"},
			account: "certificate-controller", constructor: newCSRApproving,
		},
		{
			name: "certificatesigningrequest-cleaner-controller", aliases: []string{"csrcleaner"},
			account: "certificate-controller", constructor: newCSRCleaner,
		},
		{
			name:    "podcertificaterequest-cleaner-controller",
			account: "podcertificaterequestcleaner", constructor: newPCRCleaner,
			requiredFeatureGates: []featuregate.Feature{cleaner.PodCertificateRequest},
		},
		{
			name:    "kube-apiserver-serving-clustertrustbundle-publisher-controller",
			account: "kube-apiserver-serving-clustertrustbundle-publisher", constructor: newTrustBundlePublisher,
			requiredFeatureGates: []featuregate.Feature{trustbundle.ClusterTrustBundle},
		},
		{
			name: "clusterrole-aggregation-controller", aliases: []string{"clusterrole-aggregation"},
			account: "clusterrole-aggregation-controller", constructor: newClusterRoleAggregation,
		},
		{
			name: "legacy-serviceaccount-token-cleaner-controller", aliases: []string{"legacy-service-account-token-cleaner"},
			account: "legacy-service-account-token-cleaner", constructor: newLegacyTokenCleaner, reads: legacytokencleaner.Reads,
		},
		{
			name: "service-lb-controller", aliases: []string{"service"},
			account: "service-controller", constructor: newCloudLoop,
			isCloudProvider: true,
		},
		{
			name: "node-route-controller", aliases: []string{"route"},
			account: "route-controller", constructor: newCloudLoop,
			isCloudProvider: true,
		},
		{
			name: "cloud-node-lifecycle-controller", aliases: []string{"cloud-node-lifecycle"},
			account: "node-controller", constructor: newCloudNodeLifecycle, reads: cloudnodelifecycle.Reads,
			isCloudProvider: true,
		},
		{
			name: "endpoints-controller", aliases: []string{"endpoint"},
			account: "endpoint-controller", constructor: newEndpoints, reads: endpoint.Reads,
		},
		{
			name: "endpointslice-controller", aliases: []string{"endpointslice"},
			account: "endpointslice-controller", constructor: newEndpointSlice, reads: endpointslice.Reads,
		},
		{
			name: "endpointslice-mirroring-controller", aliases: []string{"endpointslicemirroring"},
			account: "endpointslicemirroring-controller", constructor: newEndpointSliceMirroring, reads: endpointslicemirroring.Reads,
		},
	})
}

func newServiceAccountToken(ctx context.Context, c *ControllerContext, client kubernetes.Interface) (*Controller, error) {
	sa := c.ComponentConfig.SAController
	if sa.ServiceAccountKeyFile == "" {
		return nil, nil // nothing to sign with
	}
	key, err := keyutil.PrivateKeyFromFile(sa.ServiceAccountKeyFile)
	if err != nil {
		return nil, fmt.Errorf("--service-account-private-key-file: %w", err)
	}
	generator, err := serviceaccount.NewTokenGenerator(key)
	if err != nil {
		return nil, fmt.Errorf("--service-account-private-key-file: %w", err)
	}
	ca, err := newRootCA(c, "token-secrets")
	if err != nil {
		return nil, err
	}
	loop := serviceaccount.NewTokensController(
		c.InformerFactory.Core().V1().ServiceAccounts(),
		c.InformerFactory.Core().V1().Secrets(),
		client,
		serviceaccount.TokensControllerOptions{TokenGenerator: generator, RootCA: ca.current},
	)
	return &Controller{Loop: ca.followedBy(loop), Workers: int(sa.ConcurrentSATokenSyncs)}, nil
}

func newServiceAccount(ctx context.Context, c *ControllerContext, client kubernetes.Interface) (*Controller, error) {
	loop := serviceaccount.NewServiceAccountsController(
		c.InformerFactory.Core().V1().ServiceAccounts(),
		c.InformerFactory.Core().V1().Namespaces(),
		client,
		serviceaccount.DefaultServiceAccountsControllerOptions(),
	)
	return &Controller{Loop: loop, Workers: 1}, nil
}

func newRootCAPublisher(ctx context.Context, c *ControllerContext, client kubernetes.Interface) (*Controller, error) {
	ca, err := newRootCA(c, "publisher")
	if err != nil {
		return nil, err
	}
	c.InformerFactory.InformerFor(&corev1.ConfigMap{}, rootca.NewInformer)
	loop := rootca.NewPublisher(
		c.InformerFactory.Core().V1().ConfigMaps(),
		c.InformerFactory.Core().V1().Namespaces(),
		client,
		ca.current,
	)
	return &Controller{Loop: ca.followedBy(loop), Workers: 1}, nil
}

func newReplication(ctx context.Context, c *ControllerContext, client kubernetes.Interface) (*Controller, error) {
	loop := replication.NewReplicationManager(ctx,
		c.InformerFactory.Core().V1().Pods(),
		c.InformerFactory.Core().V1().ReplicationControllers(),
		client,
		replication.BurstReplicas,
	)
	return &Controller{Loop: loop, Workers: int(c.ComponentConfig.ReplicationController.ConcurrentRCSyncs)}, nil
}

func newReplicaSet(ctx context.Context, c *ControllerContext, client kubernetes.Interface) (*Controller, error) {
	loop := replication.NewReplicaSetController(ctx,
		c.InformerFactory.Apps().V1().ReplicaSets(),
		c.InformerFactory.Core().V1().Pods(),
		client,
		replication.BurstReplicas,
	)
	return &Controller{Loop: loop, Workers: int(c.ComponentConfig.ReplicaSetController.ConcurrentRSSyncs)}, nil
}

func newDeployment(ctx context.Context, c *ControllerContext, client kubernetes.Interface) (*Controller, error) {
	loop := deployment.NewDeploymentController(ctx,
		c.InformerFactory.Apps().V1().Deployments(),
		c.InformerFactory.Apps().V1().ReplicaSets(),
		c.InformerFactory.Core().V1().Pods(),
		client,
	)
	return &Controller{Loop: loop, Workers: int(c.ComponentConfig.DeploymentController.ConcurrentDeploymentSyncs)}, nil
}

// newNamespace takes clients of its own: to empty one namespace takes hundreds
// of requests, and at the usual rate would take a minute.
func newNamespace(ctx context.Context, c *ControllerContext, _ kubernetes.Interface) (*Controller, error) {
	kubeconfig, err := c.clientConfig("namespace-controller", 20, 100)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	metadataClient, err := metadata.NewForConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	loop := namespace.NewNamespaceController(ctx,
		client,
		metadataClient,
		client.Discovery().ServerPreferredNamespacedResources,
		c.InformerFactory.Core().V1().Namespaces(),
		c.ComponentConfig.NamespaceController.NamespaceSyncPeriod.Duration,
		corev1.FinalizerKubernetes,
	)
	return &Controller{Loop: loop, Workers: int(c.ComponentConfig.NamespaceController.ConcurrentNamespaceSyncs)}, nil
}

// newGarbageCollector takes clients of its own, which may make twice as many
// requests as others, as the original's may.
func newGarbageCollector(ctx context.Context, c *ControllerContext, client kubernetes.Interface) (*Controller, error) {
	options := c.ComponentConfig.GarbageCollectorController
	if !*options.EnableGarbageCollector {
		return nil, nil
	}
	kubeconfig, err := c.clientConfig("generic-garbage-collector", 2, 1)
	if err != nil {
		return nil, err
	}
	metadataClient, err := metadata.NewForConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	ignored := map[schema.GroupResource]struct{}{}
	for _, r := range options.GCIgnoredResources {
		ignored[schema.GroupResource{Group: r.Group, Resource: r.Resource}] = struct{}{}
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoveryClient))
	loop := garbagecollector.NewGarbageCollector(ctx, client, metadataClient, mapper, discoveryClient, ignored, sharedInformers(c))
	return &Controller{Loop: loop, Workers: int(options.ConcurrentGCSyncs)}, nil
}

// sharedInformers are those of the loops for pods, by which most objects are seen
// anyway.
func sharedInformers(c *ControllerContext) map[schema.GroupVersionResource]cache.SharedIndexInformer {
	core, apps := c.InformerFactory.Core().V1(), c.InformerFactory.Apps().V1()
	return map[schema.GroupVersionResource]cache.SharedIndexInformer{
		corev1.SchemeGroupVersion.WithResource("pods"):                   core.Pods().Informer(),
		corev1.SchemeGroupVersion.WithResource("replicationcontrollers"): core.ReplicationControllers().Informer(),
		appsv1.SchemeGroupVersion.WithResource("replicasets"):            apps.ReplicaSets().Informer(),
		appsv1.SchemeGroupVersion.WithResource("deployments"):            apps.Deployments().Informer(),
	}
}

// newPodGC has ten pods deleted at the same time, so that one that takes long
// does not hold up the others.
func newPodGC(ctx context.Context, c *ControllerContext, client kubernetes.Interface) (*Controller, error) {
	loop := podgc.New(client,
		c.InformerFactory.Core().V1().Pods(),
		c.InformerFactory.Core().V1().Nodes(),
		int(c.ComponentConfig.PodGCController.TerminatedPodGCThreshold),
	)
	return &Controller{Loop: loop, Workers: 10}, nil
}

func newTokenCleaner(ctx context.Context, c *ControllerContext, client kubernetes.Interface) (*Controller, error) {
	loop := tokencleaner.New(client, c.InformerFactory.Core().V1().Secrets())
	return &Controller{Loop: loop, Workers: 1}, nil
}

func newTTLAfterFinished(ctx context.Context, c *ControllerContext, client kubernetes.Interface) (*Controller, error) {
	loop := ttlafterfinished.New(c.InformerFactory.Batch().V1().Jobs(), client)
	return &Controller{Loop: loop, Workers: int(c.ComponentConfig.TTLAfterFinishedController.ConcurrentTTLSyncs)}, nil
}

func newResourceQuota(ctx context.Context, c *ControllerContext, client kubernetes.Interface) (*Controller, error) {
	options := c.ComponentConfig.ResourceQuotaController
	kubeconfig, err := c.clientConfig("resourcequota-controller", 1, 1)
	if err != nil {
		return nil, err
	}
	metadataClient, err := metadata.NewForConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	loop := resourcequota.NewController(ctx, &resourcequota.ControllerOptions{
		QuotaClient:           client.CoreV1(),
		ResourceQuotaInformer: c.InformerFactory.Core().V1().ResourceQuotas(),
		ResyncPeriod:          func() time.Duration { return options.ResourceQuotaSyncPeriod.Duration },
		DiscoveryFunc:         client.Discovery().ServerPreferredNamespacedResources,
		InformerFactory:       c.InformerFactory,
		Metadata:              metadataClient,
	})
	return &Controller{Loop: loop, Workers: int(options.ConcurrentResourceQuotaSyncs)}, nil
}

func newDaemonSet(ctx context.Context, c *ControllerContext, client kubernetes.Interface) (*Controller, error) {
	loop := daemon.New(ctx,
		c.InformerFactory.Apps().V1().DaemonSets(),
		c.InformerFactory.Apps().V1().ControllerRevisions(),
		c.InformerFactory.Core().V1().Pods(),
		c.InformerFactory.Core().V1().Nodes(),
		client,
		flowcontrol.NewBackOff(time.Second, 15*time.Minute),
	)
	return &Controller{Loop: loop, Workers: int(c.ComponentConfig.DaemonSetController.ConcurrentDaemonSetSyncs)}, nil
}

func newJob(ctx context.Context, c *ControllerContext, client kubernetes.Interface) (*Controller, error) {
	loop := job.NewController(ctx,
		client,
		c.InformerFactory.Core().V1().Pods(),
		c.InformerFactory.Batch().V1().Jobs(),
	)
	return &Controller{Loop: loop, Workers: int(c.ComponentConfig.JobController.ConcurrentJobSyncs)}, nil
}

func newCronJob(ctx context.Context, c *ControllerContext, client kubernetes.Interface) (*Controller, error) {
	loop := cronjob.NewController(ctx,
		c.InformerFactory.Batch().V1().Jobs(),
		c.InformerFactory.Batch().V1().CronJobs(),
		client,
	)
	return &Controller{Loop: loop, Workers: int(c.ComponentConfig.CronJobController.ConcurrentCronJobSyncs)}, nil
}

// newNodeIPAM has nothing to build unless nodes are to get ranges from this program.
func newNodeIPAM(ctx context.Context, c *ControllerContext, client kubernetes.Interface) (*Controller, error) {
	cluster := c.ComponentConfig.KubeCloudShared
	if !cluster.AllocateNodeCIDRs {
		return nil, nil
	}
	ranges, err := nodeipam.ParseRanges(cluster.ClusterCIDR, c.ComponentConfig.NodeIPAMController)
	if err != nil {
		return nil, err
	}
	loop := nodeipam.New(ctx, c.InformerFactory.Core().V1().Nodes(), client, ranges)
	return &Controller{Loop: loop, Workers: 30}, nil
}

// newNodeLifecycle has the loop ask about single Leases with the manager's own
// credentials: the account of the loop may not read any.
func newNodeLifecycle(ctx context.Context, c *ControllerContext, client kubernetes.Interface) (*Controller, error) {
	options := c.ComponentConfig.NodeLifecycleController
	loop, err := nodelifecycle.NewNodeLifecycleController(ctx,
		c.InformerFactory.Coordination().V1().Leases(),
		c.InformerFactory.Core().V1().Pods(),
		c.InformerFactory.Core().V1().Nodes(),
		c.InformerFactory.Apps().V1().DaemonSets(),
		client,
		c.ComponentConfig.KubeCloudShared.NodeMonitorPeriod.Duration,
		options.NodeStartupGracePeriod.Duration,
		options.NodeMonitorGracePeriod.Duration,
		options.NodeEvictionRate,
		options.SecondaryNodeEvictionRate,
		options.LargeClusterSizeThreshold,
		options.UnhealthyZoneThreshold,
	)
	if err != nil {
		return nil, err
	}
	root, err := c.RootClientBuilder.Client("node-lifecycle-leases")
	if err != nil {
		return nil, err
	}
	loop.Confirm(root.CoordinationV1().Leases(corev1.NamespaceNodeLease))
	return &Controller{Loop: loop, Workers: 8}, nil
}

func newTaintEviction(ctx context.Context, c *ControllerContext, client kubernetes.Interface) (*Controller, error) {
	loop, err := tainteviction.New(ctx,
		client,
		c.InformerFactory.Core().V1().Pods(),
		c.InformerFactory.Core().V1().Nodes(),
		"taint-eviction-controller",
	)
	if err != nil {
		return nil, err
	}
	return &Controller{Loop: loop, Workers: 8}, nil
}

func newTTL(ctx context.Context, c *ControllerContext, client kubernetes.Interface) (*Controller, error) {
	loop := ttl.NewTTLController(ctx, c.InformerFactory.Core().V1().Nodes(), client)
	return &Controller{Loop: loop, Workers: 5}, nil
}

func newBootstrapSigner(ctx context.Context, c *ControllerContext, client kubernetes.Interface) (*Controller, error) {
	loop := bootstrapsigner.New(client, c.InformerFactory.Core().V1().Secrets())
	return &Controller{Loop: loop, Workers: 1}, nil
}

// newCSRSigning has nothing to build without an authority that signs. Then it logs what
// the flags name: one of the two is easily forgotten.
func newCSRSigning(ctx context.Context, c *ControllerContext, client kubernetes.Interface) (*Controller, error) {
	options := c.ComponentConfig.CSRSigningController
	signers, err := signer.NewSigners(options)
	if err != nil {
		return nil, err
	}
	if len(signers) == 0 {
		klog.FromContext(ctx).Info("No certificate is signed, --cluster-signing-cert-file and --cluster-signing-key-file name no authority",
			"certFile", options.ClusterSigningCertFile, "keyFile", options.ClusterSigningKeyFile)
		return nil, nil
	}
	requests := c.InformerFactory.Certificates().V1().CertificateSigningRequests()
	loop := signer.New(ctx, client, requests, signers, options.ClusterSigningDuration.Duration)
	return &Controller{Loop: loop, Workers: 5}, nil
}

func newCSRApproving(ctx context.Context, c *ControllerContext, client kubernetes.Interface) (*Controller, error) {
	rbac := c.InformerFactory.Rbac().V1()
	loop := approver.New(client,
		c.InformerFactory.Certificates().V1().CertificateSigningRequests(),
		rbac.ClusterRoles(),
		rbac.ClusterRoleBindings(),
	)
	return &Controller{Loop: loop, Workers: 5}, nil
}

func newCSRCleaner(ctx context.Context, c *ControllerContext, client kubernetes.Interface) (*Controller, error) {
	loop := cleaner.NewCSRCleanerController(client, c.InformerFactory.Certificates().V1().CertificateSigningRequests())
	return &Controller{Loop: loop, Workers: 1}, nil
}

func newPCRCleaner(ctx context.Context, c *ControllerContext, client kubernetes.Interface) (*Controller, error) {
	loop := cleaner.NewPCRCleanerController(client, c.InformerFactory.Certificates().V1beta1().PodCertificateRequests())
	return &Controller{Loop: loop, Workers: 1}, nil
}

// newTrustBundlePublisher has nothing to publish if the manager itself goes by no
// certificates.
func newTrustBundlePublisher(ctx context.Context, c *ControllerContext, client kubernetes.Interface) (*Controller, error) {
	ca, err := newRootCA(c, "kube-apiserver-serving")
	if err != nil || len(ca.current()) == 0 {
		return nil, err
	}
	return &Controller{Loop: ca.followedBy(trustbundle.New(client, ca.current)), Workers: 1}, nil
}

func newClusterRoleAggregation(ctx context.Context, c *ControllerContext, client kubernetes.Interface) (*Controller, error) {
	loop := clusterroleaggregation.New(c.InformerFactory.Rbac().V1().ClusterRoles(), client.RbacV1())
	return &Controller{Loop: loop, Workers: 5}, nil
}

func newLegacyTokenCleaner(ctx context.Context, c *ControllerContext, client kubernetes.Interface) (*Controller, error) {
	core := c.InformerFactory.Core().V1()
	period := c.ComponentConfig.LegacySATokenCleaner.CleanUpPeriod.Duration
	loop := legacytokencleaner.New(core.ServiceAccounts(), core.Secrets(), core.Pods(), client, period)
	return &Controller{Loop: loop, Workers: 1}, nil
}

// newCloudNodeLifecycle has nothing to build for a cloud that knows no machines.
func newCloudNodeLifecycle(ctx context.Context, c *ControllerContext, client kubernetes.Interface) (*Controller, error) {
	loop, err := cloudnodelifecycle.New(
		c.InformerFactory.Core().V1().Nodes(),
		client,
		c.Cloud,
		c.ComponentConfig.KubeCloudShared.NodeMonitorPeriod.Duration,
	)
	if err != nil {
		klog.FromContext(ctx).Info("No loop for the nodes of the cloud", "err", err)
		return nil, nil
	}
	return &Controller{Loop: loop, Workers: 1}, nil
}

// newCloudLoop stands for loops that a cloud's own manager has and that are not
// written here.
func newCloudLoop(context.Context, *ControllerContext, kubernetes.Interface) (*Controller, error) {
	return nil, nil
}

func newEndpoints(ctx context.Context, c *ControllerContext, client kubernetes.Interface) (*Controller, error) {
	options := c.ComponentConfig.EndpointController
	loop := endpoint.NewEndpointController(ctx,
		c.InformerFactory.Core().V1().Pods(),
		c.InformerFactory.Core().V1().Services(),
		c.InformerFactory.Core().V1().Endpoints(),
		client,
		options.EndpointUpdatesBatchPeriod.Duration,
	)
	return &Controller{Loop: loop, Workers: int(options.ConcurrentEndpointSyncs)}, nil
}

func newEndpointSlice(ctx context.Context, c *ControllerContext, client kubernetes.Interface) (*Controller, error) {
	options := c.ComponentConfig.EndpointSliceController
	loop := endpointslice.NewController(ctx,
		c.InformerFactory.Core().V1().Pods(),
		c.InformerFactory.Core().V1().Services(),
		c.InformerFactory.Core().V1().Nodes(),
		c.InformerFactory.Discovery().V1().EndpointSlices(),
		options.MaxEndpointsPerSlice,
		client,
		options.EndpointUpdatesBatchPeriod.Duration,
	)
	return &Controller{Loop: loop, Workers: int(options.ConcurrentServiceEndpointSyncs)}, nil
}

func newEndpointSliceMirroring(ctx context.Context, c *ControllerContext, client kubernetes.Interface) (*Controller, error) {
	options := c.ComponentConfig.EndpointSliceMirroringController
	loop := endpointslicemirroring.NewController(ctx,
		c.InformerFactory.Core().V1().Endpoints(),
		c.InformerFactory.Discovery().V1().EndpointSlices(),
		c.InformerFactory.Core().V1().Services(),
		options.MirroringMaxEndpointsPerSubset,
		client,
		options.MirroringEndpointUpdatesBatchPeriod.Duration,
	)
	return &Controller{Loop: loop, Workers: int(options.MirroringConcurrentServiceEndpointSyncs)}, nil
}
