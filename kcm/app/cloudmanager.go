package app

import (
	"github.com/spf13/cobra"

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
