package controlplane

import (
	"fmt"
	"strconv"
	"strings"

	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
)

// RuntimeAnnotation on a pod states how long it runs, as a Go duration of grid
// time; KWOK completes it after that time divided by the lab's time factor. A
// pod without it runs until it is deleted.
const RuntimeAnnotation = "lab.lull.dev/runtime"

// nodeAnnotation marks the nodes that KWOK manages.
const nodeAnnotation = "kwok.x-k8s.io/node"

// kwokConfig is KWOK's configuration: its stock stages for nodes and for pods
// becoming ready and going away, and our own for pods completing.
func kwokConfig(timeFactor float64) string {
	documents := []string{
		`apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  enableCRDs: []
  manageNodesWithAnnotationSelector: ` + nodeAnnotation + `=fake
  nodeLeaseDurationSeconds: 40
  podPlayStageParallelism: 8
  nodePlayStageParallelism: 4
  nodeLeaseParallelism: 4
  podsOnNodeSyncParallelism: 4
`,
		nodefast.DefaultNodeInit, podfast.DefaultPodReady, podfast.DefaultPodDelete, podComplete(timeFactor),
	}
	return strings.Join(documents, "\n---\n")
}

// podComplete is the stage that ends a running pod. The delay is worked out in
// jq from the parts of the Go duration in the annotation, in milliseconds.
func podComplete(timeFactor float64) string {
	seconds := `{"h": 3600, "m": 60, "s": 1, "ms": 0.001, "us": 0.000001, "ns": 0.000000001}`
	delay := fmt.Sprintf(
		`[.metadata.annotations["%s"] | scan("([0-9.]+)(h|ms|us|ns|m|s)") | (.[0] | tonumber) * %s[.[1]]] | add * 1000 / %s | floor | tostring + "ms"`,
		RuntimeAnnotation, seconds, strconv.FormatFloat(timeFactor, 'f', -1, 64))
	return `apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata:
  name: pod-complete
spec:
  resourceRef:
    apiGroup: v1
    kind: Pod
  selector:
    matchExpressions:
    - key: '.metadata.deletionTimestamp'
      operator: 'DoesNotExist'
    - key: '.metadata.annotations["` + RuntimeAnnotation + `"]'
      operator: 'Exists'
    - key: '.status.phase'
      operator: 'In'
      values: ['Running']
    - key: '.status.conditions.[] | select( .type == "Ready" ) | .status'
      operator: 'In'
      values: ['True']
  delay:
    durationFrom:
      expressionFrom: '` + delay + `'
  next:
    statusTemplate: |
      {{ $now := Now }}
      {{ $root := . }}
      conditions:
      - lastTransitionTime: {{ $now | Quote }}
        status: "False"
        reason: PodCompleted
        type: Ready
      - lastTransitionTime: {{ $now | Quote }}
        status: "False"
        reason: PodCompleted
        type: ContainersReady
      containerStatuses:
      {{ range $index, $item := .spec.containers }}
      {{ $origin := index $root.status.containerStatuses $index }}
      - image: {{ $item.image | Quote }}
        name: {{ $item.name | Quote }}
        ready: false
        restartCount: 0
        started: false
        state:
          terminated:
            exitCode: 0
            finishedAt: {{ $now | Quote }}
            reason: Completed
            startedAt: {{ $origin.state.running.startedAt | Quote }}
      {{ end }}
      phase: Succeeded
`
}
