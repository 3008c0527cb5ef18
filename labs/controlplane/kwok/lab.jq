# What the stages ask of a pod or a node. A stage's expression that begins with  include "lab";  gets these definitions.

def annotation($name): (.metadata.annotations // {})["lab.kcm-book.io/" + $name] // "";

# "3s", "500ms", "2m", "1h" or "3" as seconds; null for anything else.
def seconds: [capture("^(?<n>[0-9]+([.][0-9]+)?)(?<unit>ms|s|m|h)?$") | (.n | tonumber) * {ms: 0.001, s: 1, m: 60, h: 3600}[.unit // "s"]][0];

# A moment, in seconds of Unix time, as the delay until then.
def until_then: ([. - now, 0] | max * 1000 | floor | tostring) + "ms";

def terminating: .metadata.deletionTimestamp != null;
def phase: .status.phase // "Pending";
def terminal: phase == "Succeeded" or phase == "Failed";
def condition($type): [.status.conditions[]? | select(.type == $type) | .status][0] // "False";

# A node has the taint that admission puts on a new one.
def tainted_as_new: any(.spec.taints[]?; .key == "node.kubernetes.io/not-ready" and .effect == "NoSchedule");

# An image with tag broken cannot be pulled, nor one with a tag that Kubernetes' end-to-end specs use for that.
def broken: any(.spec.containers[], .spec.initContainers[]?; .image | test(":(broken|404|non-?existent)$"));

# What waiting containers wait for.
def waits_for($reason): any(.status.containerStatuses[]?.state.waiting.reason; . == $reason);
def containers_run: [.status.containerStatuses[]?.state.running] | length > 0 and all(. != null);
def init_runs: any(.status.initContainerStatuses[]?.state.running; . != null);

# When the containers were started. A startTime has only whole seconds, so the containers' IDs say it in milliseconds.
def started: [.status.containerStatuses[]?.containerID // "" | capture("^lab://(?<ms>[0-9]+)") | (.ms | tonumber) / 1000][0] // now;

# The first container's command line, and what a flag on it says, as labs/web reads it: --name=value or --name value.
def command_line: [.spec.containers[0] | (.command // [])[], (.args // [])[]] | join(" ");
def flag($name): [command_line | capture("(^| )--?" + $name + "[= ](?<value>[^ ]+)") | .value][0] // "";

# What an annotation asks for, otherwise the flag of the same name. What is not understood counts as absent.
def asked_for($name): annotation($name), flag($name);
def duration($name): [asked_for($name) | seconds | values][0];

def init_for: (annotation("init-for") | seconds) // 0.5;
def never_ready: [asked_for("ready-after") | select(. == "never" or seconds != null)][0] == "never";
def ready_after: duration("ready-after") // 1;
def gates_open: . as $pod | all(.spec.readinessGates[]?.conditionType; . as $type | $pod | condition($type) == "True");

# Which branch of a script runs, as the specs about Jobs write them: odd indexes of a Job take the first one of a script that
# asks for its index modulo 2, and containers that were restarted take the first one of a script that touches a file.
def odd: (.metadata.annotations // {})["batch.kubernetes.io/job-completion-index"] // "0" | tonumber % 2 == 1;
def restarted: any(.status.containerStatuses[]?; .restartCount > 0);
def branch: odd as $odd | restarted as $restarted | command_line | split("else") as $branches
  | if test("JOB_COMPLETION_INDEX\\} % 2\\) -ne 0") then (if $odd then $branches[0] else $branches[-1] end)
    elif test("\\btouch\\b") then (if $restarted then $branches[0] else $branches[-1] end)
    else . end;

# What a shell's commands in it ask for. A loop never ends.
def command: branch | select(test("\\b(while|until|for)\\b") | not);
def asked_sleep: [command | capture("\\bsleep +(?<n>[0-9]+([.][0-9]+)?(ms|s|m|h)?)\\b") | .n | seconds][0];
def asked_exit: [command | capture("\\bexit +(?<n>[0-9]{1,3})\\b") | .n | tonumber][0];

# The templates in pod-exit.yaml find the code in the same way.
def hostname: .spec.hostname // .metadata.name;
def fails_as: flag("fails-as") as $wrong | if $wrong == "" then null elif hostname | test($wrong) then 1 else 0 end;
def exit_code: [asked_for("exit-code") | select(test("^[0-9]{1,3}$")) | tonumber][0] // fails_as // asked_exit;
# The shell of image busybox without a script has nothing to read, and ends at once.
def idle_shell: (.spec.containers[0].image | test("(^|/)busybox(:|$)")) and command_line == "";
# Pods whose hostname is another one go on, whatever else is asked for.
def goes_on: flag("ends-as") as $ending | $ending != "" and (hostname | test($ending) | not);
# How long the containers run; null if they run until the pod is deleted.
def run_for: if goes_on then null else duration("run-for") // asked_sleep // (if exit_code == null and (idle_shell | not) then null else 0 end) end;
def ends_before_ready: run_for != null and (never_ready or run_for <= ready_after);
def exits_next: phase == "Running" and containers_run and run_for != null
  and (ends_before_ready or (condition("ContainersReady") == "True" and (condition("Ready") == "True") == gates_open));
def stays_ended: .spec.restartPolicy == "Never" or (.spec.restartPolicy == "OnFailure" and (exit_code // 0) == 0);

# A kubelet restarts at once the first time, then after 10 s, 20 s, 40 s, … at most 5 minutes.
def restart_after: ([.status.containerStatuses[].restartCount] | max) as $n | if $n == 0 then 0 else [10 * pow(2; $n - 1), 300] | min end;

# When a deleted pod's containers have ended: they are quick about it, but have no more than the grace period.
def stop_after: duration("stop-after") // 0.5;
def stopped: [now + stop_after, (.metadata.deletionTimestamp | fromdateiso8601)] | min;
