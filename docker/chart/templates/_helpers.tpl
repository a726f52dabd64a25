{{- define "sluiceway.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end }}

{{- define "sluiceway.selector" -}}
app.kubernetes.io/name: sluiceway
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sluiceway.labels" -}}
{{ include "sluiceway.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "sluiceway.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "sluiceway.static" -}}
{{- eq .Values.workload "StatefulSet" -}}
{{- end }}

{{- /* What the Kafka client is told besides the flow's file. */ -}}
{{- define "sluiceway.client" -}}
{{- range $name, $value := .Values.kafka }}
{{ $name }}={{ $value }}
{{- end }}
{{- if eq (include "sluiceway.static" .) "true" }}
group.instance.id=${POD_NAME}
session.timeout.ms={{ int .Values.sessionTimeoutMs }}
{{- end }}
{{- end }}

{{- define "sluiceway.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "sluiceway.name" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end }}

{{- define "sluiceway.flow" -}}
{{ .Values.existingFlow | default (include "sluiceway.name" .) }}
{{- end }}

{{- /* A container that can do nothing but its work. */ -}}
{{- define "sluiceway.locked" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}
