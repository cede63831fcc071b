{{- /* The image, with its tag or digest. */}}
{{- define "lull.image" -}}
{{- $name := required "image.repository: not set; accepted: where you have pushed the image (docs/install.md)" .Values.image.repository -}}
{{- if .Values.image.digest }}{{ $name }}@{{ .Values.image.digest }}{{ else }}{{ $name }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- /* Labels of a component: (list . "controller"). They select its pods and never change. */}}
{{- define "lull.labels" -}}
app.kubernetes.io/name: lull
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- /* Where pods run, as whom: (list . "controller"). */}}
{{- define "lull.pod" -}}
{{- $root := index . 0 }}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
{{- toYaml . | nindent 0 }}
{{- end }}
{{- with $root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $root.Values.nodeSelector }}
nodeSelector:
{{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.tolerations }}
tolerations:
{{- toYaml . | nindent 0 }}
{{- end }}
{{- with $root.Values.affinity }}
affinity:
{{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "lull.labels" . | nindent 6 }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- /* A container's image and what it may do. */}}
{{- define "lull.container" -}}
image: {{ include "lull.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "lull.probes" -}}
livenessProbe:
  httpGet: {path: /healthz, port: health}
readinessProbe:
  httpGet: {path: /readyz, port: health}
{{- end }}

{{- /* Generated access rules, for the namespace of the release. */}}
{{- define "lull.rules" -}}
{{- $root := index . 0 }}
{{- $root.Files.Get (printf "files/rbac/%s.yaml" (index . 1)) | replace "namespace: lull-system" (printf "namespace: %s" $root.Release.Namespace) | replace "namespace: kueue-system" (printf "namespace: %s" $root.Values.kueue.namespace) }}
{{- end }}

{{- /* Binds a role to an account: (list . KIND ROLE ACCOUNT NAMESPACE), the last empty for all of them. */}}
{{- define "lull.binding" -}}
{{- $namespace := index . 4 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ if $namespace }}RoleBinding{{ else }}ClusterRoleBinding{{ end }}
metadata:
  name: {{ index . 3 | eq (index . 2) | ternary (index . 2) (printf "%s-%s" (index . 3) (trimPrefix "lull-" (index . 2))) }}
  {{- with $namespace }}
  namespace: {{ . }}
  {{- end }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ index . 1 }}
  name: {{ index . 2 }}
subjects:
- kind: ServiceAccount
  name: {{ index . 3 }}
  namespace: {{ (index . 0).Release.Namespace }}
{{- end }}

{{- /* A ClusterRole in two, as JSON: "cluster" with what is cluster-wide and the right to read Pods, which are load wherever they are, and
     "namespaced" with the rest, which is bound in namespaces only. Either is absent without rules: (list . ROLE). */}}
{{- define "lull.split" -}}
{{- $scopes := (index . 0).Files.Get "files/scopes.yaml" | fromYaml }}
{{- $role := index . 1 }}
{{- $rules := dict "cluster" list "namespaced" list }}
{{- range $rule := $role.rules }}
{{- $of := dict "cluster" list "namespaced" list }}
{{- if or (ne (len $rule.apiGroups) 1) $rule.nonResourceURLs }}
{{- fail (printf "ClusterRole %s: a rule of %v; accepted with namespaces: resources of one group" $role.metadata.name $rule.apiGroups) }}
{{- end }}
{{- range $resource := $rule.resources }}
{{- $name := trimSuffix "." (printf "%s.%s" (splitList "/" $resource | first) (first $rule.apiGroups)) }}
{{- $scope := "" }}
{{- if has $name $scopes.cluster }}{{ $scope = "cluster" }}{{ end }}
{{- if has $name $scopes.namespaced }}{{ $scope = "namespaced" }}{{ end }}
{{- if not $scope }}
{{- fail (printf "ClusterRole %s: resource %s; accepted with namespaces: those of files/scopes.yaml" $role.metadata.name $name) }}
{{- end }}
{{- if and (eq $resource "pods") (eq $name "pods") (not (without $rule.verbs "get" "list" "watch")) }}{{ $scope = "cluster" }}{{ end }}
{{- $_ := set $of $scope (append (get $of $scope) $resource) }}
{{- end }}
{{- range $scope, $resources := $of }}
{{- if $resources }}{{ $_ := set $rules $scope (append (get $rules $scope) (set (deepCopy $rule) "resources" $resources)) }}{{ end }}
{{- end }}
{{- end }}
{{- $out := dict }}
{{- range $scope, $list := $rules }}
{{- if $list }}
{{- $part := set (deepCopy $role) "rules" $list }}
{{- if eq $scope "namespaced" }}{{ $_ := set $part.metadata "name" (printf "%s-namespaced" $role.metadata.name) }}{{ end }}
{{- $_ := set $out $scope $part }}
{{- end }}
{{- end }}
{{- toJson $out }}
{{- end }}

{{- /* Binds a ClusterRole of namespaced resources to an account, in the namespaces of the chart, or in all: (list . ROLE ACCOUNT). */}}
{{- define "lull.bindingIn" }}
{{- $root := index . 0 }}
{{- $role := index . 1 }}
{{- $account := index . 2 }}
{{- if not $root.Values.namespaces }}
{{- include "lull.binding" (list $root "ClusterRole" $role $account "") }}
{{- end }}
{{- range $namespace := $root.Values.namespaces }}
{{- include "lull.binding" (list $root "ClusterRole" $role $account $namespace) }}
{{- end }}
{{- end }}

{{- /* Roles, with the ClusterRole among them bound to an account: (list . ROLES ROLE ACCOUNT). */}}
{{- define "lull.grant" }}
{{- $root := index . 0 }}
{{- $role := index . 2 }}
{{- $account := index . 3 }}
{{- if not $root.Values.namespaces }}
{{- index . 1 | nindent 0 }}
{{- include "lull.binding" (list $root "ClusterRole" $role $account "") }}
{{- else }}
{{- range $document := splitList "\n---\n" (printf "\n%s" (index . 1)) }}
{{- $object := fromYaml $document }}
{{- if eq (get $object "kind") "ClusterRole" }}
{{- $split := include "lull.split" (list $root $object) | fromJson }}
{{- with $split.cluster }}
---
{{ toYaml . }}
{{- include "lull.binding" (list $root "ClusterRole" $role $account "") }}
{{- end }}
{{- with $split.namespaced }}
---
{{ toYaml . }}
{{- include "lull.bindingIn" (list $root .metadata.name $account) }}
{{- end }}
{{- else if $object }}
---
{{ trim $document }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* What bounds an admission policy to the namespaces of the chart. */}}
{{- define "lull.selector" }}
{{- with .Values.namespaces }}
    namespaceSelector:
      matchExpressions:
      - key: kubernetes.io/metadata.name
        operator: In
        values: {{ toJson . }}
{{- end }}
{{- end }}

{{- define "lull.account" }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ index . 1 }}
  namespace: {{ (index . 0).Release.Namespace }}
{{- end }}

{{- /* An object of this release in the cluster, while it is upgraded; {} where there is none, and where the cluster cannot be asked
     (helm template, Argo CD): (list . APIVERSION KIND NAMESPACE NAME). */}}
{{- define "lull.live" -}}
{{- $root := index . 0 }}
{{- $out := dict }}
{{- if $root.Release.IsUpgrade }}
{{- $object := lookup (index . 1) (index . 2) (index . 3) (index . 4) }}
{{- if eq (dig "metadata" "annotations" "meta.helm.sh/release-name" "" $object) $root.Release.Name }}{{ $out = $object }}{{ end }}
{{- end }}
{{- toJson $out }}
{{- end }}

{{- /* Refuses an upgrade with which Helm would delete an object that holds data, because the annotation that tells Helm to keep it has
     not been applied yet: (list . APIVERSION KIND NAMESPACE NAME VALUES FIRST). */}}
{{- define "lull.guard" }}
{{- $live := include "lull.live" . | fromJson }}
{{- if and $live (ne (dig "metadata" "annotations" "helm.sh/resource-policy" "" $live) "keep") }}
{{- fail (printf "%s: Helm would delete %s %s, and all that is in it; accepted: first %s" (index . 5) (index . 2) (index . 4) (index . 6)) }}
{{- end }}
{{- end }}

{{- /* What holds work at creation: policy or webhook. Where kinds are not known (helm template), the version of Kubernetes decides. */}}
{{- define "lull.admission" -}}
{{- $mode := (.Values.admission).mode | default "auto" }}
{{- if ne $mode "auto" }}{{ $mode }}{{ else }}{{ eq (include "lull.servesPolicies" .) "true" | ternary "policy" "webhook" }}{{ end }}
{{- end }}

{{- /* Whether the API server has MutatingAdmissionPolicies. */}}
{{- define "lull.servesPolicies" -}}
{{- if .Capabilities.APIVersions.Has "v1/Pod" }}
{{- .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy" }}
{{- else }}
{{- semverCompare ">=1.36.0-0" .Capabilities.KubeVersion.Version }}
{{- end }}
{{- end }}
