package app

import (
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cpconfig "k8s.io/cloud-provider/config/v1alpha1"
	kcmconfig "k8s.io/kube-controller-manager/config/v1alpha1"

	"github.com/kcm-book/kcm-book/kcm/app/options"
)

const cloudDescription = `This is the manager of a cloud. It runs the control loops of Kubernetes that ask
the cloud in which the machines of a cluster stand, and takes the flags of
cloud-controller-manager that are about these.`

// NewCloudManagerCommand returns the command of a cloud's own manager. Its name
// is for people; which cloud it is, --cloud-provider says, and that cloud has to
// be compiled in.
func NewCloudManagerCommand(name string) *cobra.Command {
	opts, err := options.NewCloudManagerOptions()
	if err != nil {
		panic(err) // the defaults contradict each other: a mistake in this program
	}
	return newCommand(name, cloudDescription, opts)
}

// ofCloud returns what concerns the manager of a cloud, in the form in which its
// /configz shows it.
func ofCloud(all *kcmconfig.KubeControllerManagerConfiguration) *cpconfig.CloudControllerManagerConfiguration {
	return &cpconfig.CloudControllerManagerConfiguration{
		TypeMeta:        metav1.TypeMeta{APIVersion: cpconfig.SchemeGroupVersion.String(), Kind: "CloudControllerManagerConfiguration"},
		Generic:         all.Generic,
		KubeCloudShared: all.KubeCloudShared,
	}
}
