package job

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
)

// meetsSuccessPolicy returns the message of the first rule that the succeeded
// indexes meet: all that it names, or as many of these as it asks for, or as
// many as it asks for of all. A rule may ask for none. It is met, as any other, as
// soon as an index has succeeded.
func meetsSuccessPolicy(job *batchv1.Job, succeeded indexes) (message string, met bool) {
	if job.Spec.SuccessPolicy == nil || len(succeeded) == 0 {
		return "", false
	}
	for i, rule := range job.Spec.SuccessPolicy.Rules {
		named := indexes{{0, int(*job.Spec.Completions) - 1}}
		if rule.SucceededIndexes != nil {
			named = parseIndexes(*rule.SucceededIndexes, int(*job.Spec.Completions))
		}
		need := named.len()
		if rule.SucceededCount != nil {
			need = min(need, int(*rule.SucceededCount))
		}
		if len(named) > 0 && named.common(succeeded) >= need {
			return fmt.Sprintf("Matched rules at index %d", i), true
		}
	}
	return "", false
}
