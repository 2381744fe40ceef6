// Renders a Helm chart for a check on a machine without Helm: it uses the same template engine and libraries.
//
//	render KUBERNETES-VERSION CHART RELEASE NAMESPACE [VALUES-FILE…]
//
// Debian has the libraries: golang-github-masterminds-sprig-dev, golang-github-ghodss-yaml-dev.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"github.com/ghodss/yaml"
)

type object = map[string]interface{}

func read(path string) object {
	text, err := os.ReadFile(path)
	check(err)
	var values object
	check(yaml.Unmarshal(text, &values))
	return values
}

// Puts `over` on top of `values`, as Helm does with values files.
func merge(values, over object) {
	for key, value := range over {
		inner, isObject := value.(object)
		if under, wasObject := values[key].(object); isObject && wasObject {
			merge(under, inner)
		} else {
			values[key] = value
		}
	}
}

// Helm's functions that are not Sprig's.
func functions(root *template.Template) template.FuncMap {
	funcs := sprig.TxtFuncMap()
	funcs["include"] = func(name string, data interface{}) (string, error) {
		var out bytes.Buffer
		err := root.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}
	funcs["toYaml"] = func(value interface{}) (string, error) {
		text, err := yaml.Marshal(value)
		return strings.TrimSuffix(string(text), "\n"), err
	}
	funcs["required"] = func(message string, value interface{}) (interface{}, error) {
		if value == nil || value == "" {
			return nil, errors.New(message)
		}
		return value, nil
	}
	return funcs
}

func main() {
	log.SetFlags(0)
	if len(os.Args) < 5 {
		log.Fatal("render KUBERNETES-VERSION CHART RELEASE NAMESPACE [VALUES-FILE…]")
	}
	version, chart := os.Args[1], os.Args[2]
	about := read(filepath.Join(chart, "Chart.yaml"))
	values := read(filepath.Join(chart, "values.yaml"))
	for _, file := range os.Args[5:] {
		merge(values, read(file))
	}

	root := template.New("").Option("missingkey=zero")
	root.Funcs(functions(root))
	files, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	check(err)
	base := about["name"].(string) + "/templates"
	for _, file := range files {
		text, err := os.ReadFile(file)
		check(err)
		_, err = root.New(base + "/" + filepath.Base(file)).Parse(string(text))
		check(err)
	}
	data := object{
		"Values":       values,
		"Release":      object{"Name": os.Args[3], "Namespace": os.Args[4], "Service": "Helm"},
		"Chart":        object{"Name": about["name"], "Version": about["version"], "AppVersion": about["appVersion"]},
		"Template":     object{"BasePath": base},
		"Capabilities": object{"APIVersions": none{}, "KubeVersion": object{"Version": version}},
	}
	for _, file := range files {
		name := base + "/" + filepath.Base(file)
		if !strings.HasSuffix(name, ".tpl") {
			var out bytes.Buffer
			check(root.ExecuteTemplate(&out, name, data))
			text := strings.TrimSpace(out.String())
			if strings.HasSuffix(name, ".txt") && text != "" {
				text = "# " + strings.ReplaceAll(text, "\n", "\n# ")
			}
			if text != "" {
				fmt.Printf("---\n# Source: %s\n%s\n", name, text)
			}
		}
	}
}

// As `helm template` describes a cluster, which it does not ask: no resource is there.
type none struct{}

func (none) Has(version string) bool { return false }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
