package options

import (
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	cmconfig "k8s.io/controller-manager/config"
	migrationconfig "k8s.io/controller-manager/pkg/leadermigration/config"
)

func (o *KubeControllerManagerOptions) addLeaderMigrationFlags(fs *pflag.FlagSet) {
	migration := o.Generic.LeaderMigration
	fs.BoolVar(&migration.Enabled, "enable-leader-migration", false,
		"Run the loops that move from one program to another under a Lease that both programs know.")
	fs.StringVar(&migration.ControllerMigrationConfig, "leader-migration-config", "",
		"File with a LeaderMigrationConfiguration of controllermanager.config.k8s.io/v1, which says which loops these are, and who runs them. "+
			"Without it, it is the loops of the cloud, and whoever has the Lease.")
}

// validateLeaderMigration checks what says which loops migrate, and returns an
// error for each mistake in it.
func (o *KubeControllerManagerOptions) validateLeaderMigration(known Controllers) []error {
	if !o.Generic.LeaderMigration.Enabled {
		return nil
	}
	file := o.Generic.LeaderMigration.ControllerMigrationConfig
	migration := migrationconfig.DefaultLeaderMigrationConfiguration()
	if file != "" {
		var err error
		if migration, err = migrationconfig.ReadLeaderMigrationConfiguration(file); err != nil {
			return []error{fmt.Errorf("--leader-migration-config=%s: %w", file, err)}
		}
	}
	mistakes := migrationconfig.ValidateLeaderMigrationConfiguration(migration)
	mistakes = append(mistakes, known.validateLeaders(migration.ControllerLeaders)...)
	if migration.ResourceLock == migrationconfig.ResourceLockEndpoints {
		mistakes = append(mistakes, field.Invalid(field.NewPath("resourceLock"), migration.ResourceLock, "must be leases"))
	}
	if migration.LeaderName == o.Generic.LeaderElection.ResourceName {
		mistakes = append(mistakes, field.Invalid(field.NewPath("leaderName"), migration.LeaderName,
			"must not be that of --leader-elect-resource-name, or one Lease would count for two"))
	}
	var errs []error
	for _, mistake := range mistakes {
		errs = append(errs, fmt.Errorf("--leader-migration-config=%s: %w", file, mistake))
	}
	return errs
}

// validateLeaders refuses a loop that is there twice, maybe under two of its
// names. Names that are not known here may be those of the other program's loops.
func (c Controllers) validateLeaders(given []cmconfig.ControllerLeaderConfiguration) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, leader := range given {
		name := c.canonicalName(leader.Name)
		if seen.Has(name) {
			errs = append(errs, field.Duplicate(field.NewPath("controllerLeaders").Index(i).Child("name"), leader.Name))
		}
		seen.Insert(name)
	}
	return errs
}

// canonical replaces former names of loops that migrate. The original takes them
// for those of loops that it does not have, and runs the loop under the wrong
// Lease.
func (c Controllers) canonical(leaders []cmconfig.ControllerLeaderConfiguration) {
	for i := range leaders {
		leaders[i].Name = c.canonicalName(leaders[i].Name)
	}
}

func (c Controllers) canonicalName(name string) string {
	if canonical, isAlias := c.Aliases[name]; isAlias {
		return canonical
	}
	return name
}
