package job

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
)

// meetsSuccessPolicy returns the message of the first rule that the succeeded
// indexes meet: all that it names, or as many of these as it asks for, or as
// many as it asks for of all.
func meetsSuccessPolicy(job *batchv1.Job, succeeded indexes) (message string, met bool) {
	if job.Spec.SuccessPolicy == nil || len(succeeded) == 0 {
		return "", false
	}
	for i, rule := range job.Spec.SuccessPolicy.Rules {
		have, need := succeeded.len(), 0
		if rule.SucceededIndexes != nil {
			named := parseIndexes(*rule.SucceededIndexes, int(*job.Spec.Completions))
			have, need = named.common(succeeded), named.len()
		}
		if rule.SucceededCount != nil {
			need = int(*rule.SucceededCount)
		}
		if need > 0 && have >= need {
			return fmt.Sprintf("Matched rules at index %d", i), true
		}
	}
	return "", false
}
