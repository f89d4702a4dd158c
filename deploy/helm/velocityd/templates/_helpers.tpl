{{- define "velocityd.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "velocityd.fullname" -}}
{{- $name := include "velocityd.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "velocityd.selector" -}}
app.kubernetes.io/name: {{ include "velocityd.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: server
{{- end }}

{{- define "velocityd.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/name: {{ include "velocityd.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | replace "+" "_" | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "velocityd.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion | replace "+" "-" }}
{{- end }}
{{- end }}

{{- define "velocityd.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- .Values.serviceAccount.name | default (include "velocityd.fullname" .) }}
{{- else }}
{{- .Values.serviceAccount.name | default "default" }}
{{- end }}
{{- end }}

{{- define "velocityd.dsnSecret" -}}
{{- required "database.existingSecret: name a Secret that has the DSN of the service's account" .Values.database.existingSecret }}
{{- end }}

{{- define "velocityd.ownerSecret" -}}
{{- .Values.migrate.existingSecret | default (include "velocityd.dsnSecret" .) }}
{{- end }}

{{- /* The names of the Service, by which callers without TLS may ask. */}}
{{- define "velocityd.hosts" -}}
{{- $host := printf "%s.%s" (include "velocityd.fullname" .) .Release.Namespace }}
{{- concat (list $host (printf "%s.svc" $host) (printf "%s.svc.cluster.local" $host)) .Values.allowedHosts | uniq | toYaml }}
{{- end }}

{{- /* The file of settings: those that follow from values, and those of config, which may not name the former. */}}
{{- define "velocityd.config" -}}
{{- $set := dict
  "listen" ":8080"
  "dsn-file" "/run/velocityd/dsn/dsn"
  "allowed-hosts" (include "velocityd.hosts" . | fromYamlArray)
  "state-dir" "/var/lib/velocityd/state"
  "drain-delay" (printf "%ds" (int .Values.drainDelaySeconds))
  "shutdown-timeout" (printf "%ds" (int .Values.shutdownTimeoutSeconds))
}}
{{- if .Values.admin.enabled }}{{- $_ := set $set "admin-listen" (printf ":%d" (int .Values.admin.port)) }}{{- end }}
{{- if .Values.grpc.enabled }}{{- $_ := set $set "grpc-listen" (printf ":%d" (int .Values.grpc.port)) }}{{- end }}
{{- if or .Values.gates .Values.domains }}{{- $_ := set $set "gates" "/etc/velocityd/gates.yaml" }}{{- end }}
{{- if .Values.tls.existingSecret }}
{{- $_ := set $set "tls-cert" "/run/velocityd/tls/tls.crt" }}
{{- $_ := set $set "tls-key" "/run/velocityd/tls/tls.key" }}
{{- if .Values.tls.clientCASecret }}{{- $_ := set $set "tls-client-ca" "/run/velocityd/client-ca/ca.crt" }}{{- end }}
{{- end }}
{{- $others := list "admin-listen" "grpc-listen" "gates" "tls-cert" "tls-key" "tls-client-ca" "dsn" "config" }}
{{- range $name := concat (keys $set) $others | uniq | sortAlpha }}
{{- if hasKey $.Values.config $name }}{{- fail (printf "config.%s: another value of the chart sets it, see values.yaml" $name) }}{{- end }}
{{- end }}
{{- merge $set .Values.config | toYaml }}
{{- end }}

{{- define "velocityd.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "velocityd.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "velocityd.tokenSecret" -}}
{{- .Values.token.secretName | default (printf "%s-token" (include "velocityd.fullname" .)) }}
{{- end }}

{{- /* A pod whose container, called name, runs commands as the owner of the schema: args is the command, or empty. secret and key
       name the DSN of another account, and account is one of the cluster, whose token the pod then gets. */}}
{{- define "velocityd.ownerPod" -}}
restartPolicy: Never
{{- with get . "account" }}
serviceAccountName: {{ . }}
{{- end }}
automountServiceAccountToken: {{ hasKey . "account" }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext: {{- include "velocityd.podSecurity" .root | nindent 2 }}
containers:
  - name: {{ .name }}
    image: {{ include "velocityd.image" .root | quote }}
    imagePullPolicy: {{ .root.Values.image.pullPolicy }}
    {{- with .args }}
    args: {{- toYaml . | nindent 6 }}
    {{- end }}
    env: [{name: VELOCITY_DSN_FILE, value: /run/velocityd/owner/dsn}]
    securityContext: {{- include "velocityd.containerSecurity" .root | nindent 6 }}
    resources: {{- toYaml .root.Values.resources | nindent 6 }}
    volumeMounts:
      - {name: owner, mountPath: /run/velocityd/owner, readOnly: true}
volumes:
  - name: owner
    secret:
      secretName: {{ get . "secret" | default (include "velocityd.ownerSecret" .root) }}
      defaultMode: 0440
      items: [{key: {{ get . "key" | default .root.Values.migrate.key }}, path: dsn}]
{{- end }}
