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

{{- define "lull.account" }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ index . 1 }}
  namespace: {{ (index . 0).Release.Namespace }}
{{- end }}
