{{/* The name of the delegate's Deployment, as harness-delegate-ng makes it. */}}
{{- define "delegate-upgrader.delegate" -}}
{{- .Values.fullnameOverride | default .Values.delegateName | default "harness-delegate-ng" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "delegate-upgrader.serviceAccount" -}}
{{- include "delegate-upgrader.delegate" . }}-{{ .Values.upgrader.cronJobServiceAccountName }}
{{- end }}

{{- define "delegate-upgrader.tokenSecret" -}}
{{- .Values.upgrader.existingUpgraderToken | default (printf "%s-upgrader-token" (include "delegate-upgrader.delegate" .)) }}
{{- end }}

{{/* A CronJob's name gets 11 characters more for each Job. */}}
{{- define "delegate-upgrader.jobName" -}}
{{- $name := .Values.upgrader.jobName | default (printf "%s-upgrader-job" (include "delegate-upgrader.delegate" .)) }}
{{- if gt (len $name) 52 }}
{{- fail (printf "the CronJob's name %s has more than 52 characters: set upgrader.jobName" $name) }}
{{- end }}
{{- $name }}
{{- end }}

{{- define "delegate-upgrader.image" -}}
{{- with .Values.upgrader.image.registry }}{{ . }}/{{ end }}
{{- .Values.upgrader.image.repository }}:{{ .Values.upgrader.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "delegate-upgrader.selectorLabels" -}}
app.kubernetes.io/name: delegate-upgrader
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "delegate-upgrader.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "delegate-upgrader.selectorLabels" . }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* What every object has, but its name. */}}
{{- define "delegate-upgrader.metadata" -}}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "delegate-upgrader.labels" . | nindent 2 }}
{{- with .Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What mode-dependent objects have in common: the pod. */}}
{{- define "delegate-upgrader.podSpec" -}}
{{- $isDeployment := eq .Values.upgrader.mode "Deployment" -}}
serviceAccountName: {{ include "delegate-upgrader.serviceAccount" . }}
automountServiceAccountToken: true
enableServiceLinks: false
restartPolicy: {{ ternary "Always" "Never" $isDeployment }}
{{- with .Values.upgrader.imagePullSecret }}
imagePullSecrets:
  - name: {{ . }}
{{- end }}
{{- with .Values.upgrader.pod.securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
containers:
  - name: upgrader
    image: {{ include "delegate-upgrader.image" . | quote }}
    imagePullPolicy: {{ .Values.upgrader.image.pullPolicy }}
    {{- if $isDeployment }}
    args: [kubernetes, run]
    env:
      - name: SCHEDULE
        value: {{ .Values.upgrader.schedule | quote }}
      - name: LISTEN_ADDR
        value: "0.0.0.0:9464"
    ports:
      - name: status
        containerPort: 9464
    livenessProbe:
      httpGet: {path: /livez, port: status}
      periodSeconds: 30
      timeoutSeconds: 5
    readinessProbe:
      httpGet: {path: /readyz, port: status}
      timeoutSeconds: 5
    {{- end }}
    envFrom:
      - secretRef:
          name: {{ include "delegate-upgrader.tokenSecret" . }}
    {{- with .Values.upgrader.securityContext }}
    securityContext:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with .Values.upgrader.resources }}
    resources:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    volumeMounts:
      - name: config-volume
        mountPath: /etc/config
        readOnly: true
      {{- if .Values.mTLS.secretName }}
      - name: client-certificate
        mountPath: /etc/mtls
        readOnly: true
      {{- end }}
      {{- if .Values.upgraderCustomCa.secretName }}
      - name: custom-certs
        mountPath: /ca-bundle
        readOnly: true
      {{- end }}
volumes:
  - name: config-volume
    {{- if .Values.proxyPassword }}
    secret:
      secretName: {{ include "delegate-upgrader.delegate" . }}-upgrader-config
      defaultMode: 0440
    {{- else }}
    configMap:
      name: {{ include "delegate-upgrader.delegate" . }}-upgrader-config
    {{- end }}
  {{- with .Values.mTLS.secretName }}
  - name: client-certificate
    secret:
      secretName: {{ . }}
      defaultMode: 0440
  {{- end }}
  {{- with .Values.upgraderCustomCa.secretName }}
  - name: custom-certs
    secret:
      secretName: {{ . }}
      defaultMode: 0440
  {{- end }}
{{- with .Values.upgrader.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
