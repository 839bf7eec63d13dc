package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// applyCase is a sequence of writes of one object.
type applyCase struct {
	// Definitions are OpenAPI v3 schemas by name; that of the kind names it by x-kubernetes-group-version-kind.
	Definitions json.RawMessage `json:"definitions"`
	APIVersion  string          `json:"apiVersion"`
	Kind        string          `json:"kind"`
	Operations  []write         `json:"operations"`
}

// write is one request.
type write struct {
	// Op is update or apply.
	Op          string `json:"op"`
	Manager     string `json:"manager"`
	Subresource string `json:"subresource"`
	Force       bool   `json:"force"`
	// Live is the object before the write. Without it, that is the object after the last write.
	Live   json.RawMessage `json:"live"`
	Object json.RawMessage `json:"object"`
	// ResetFields is a set of fields in FieldsV1.
	ResetFields json.RawMessage `json:"resetFields"`
	// Now is the time that the write happens at.
	Now metav1.Time `json:"now"`
}

// written answers a write.
type written struct {
	Object        map[string]any              `json:"object,omitempty"`
	ManagedFields []metav1.ManagedFieldsEntry `json:"managedFields,omitempty"`
	// Fields are the bytes of the field sets.
	Fields    []string             `json:"fields,omitempty"`
	Conflicts []metav1.StatusCause `json:"conflicts,omitempty"`
	Error     string               `json:"error,omitempty"`
	Code      int32                `json:"code,omitempty"`
}

// apply answers the cases on standard input, a JSON document a line, with a line for each of their writes, as
// the kube-apiserver would for a custom resource.
func apply() error {
	cases := json.NewDecoder(bufio.NewReader(os.Stdin))
	out := bufio.NewWriter(os.Stdout)
	answers := json.NewEncoder(out)
	answers.SetEscapeHTML(false)
	converters := map[string]managedfields.TypeConverter{}
	for {
		var next applyCase
		if err := cases.Decode(&next); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		converter, known := converters[string(next.Definitions)]
		if !known {
			var definitions map[string]*spec.Schema
			if err := json.Unmarshal(next.Definitions, &definitions); err != nil {
				return err
			}
			var err error
			if converter, err = managedfields.NewTypeConverter(definitions, false); err != nil {
				return err
			}
			converters[string(next.Definitions)] = converter
		}
		var live json.RawMessage
		for _, operation := range next.Operations {
			if operation.Live != nil {
				live = operation.Live
			}
			answer, err := operation.run(converter, schema.FromAPIVersionAndKind(next.APIVersion, next.Kind), live)
			if err != nil {
				return err
			}
			if answer.Object != nil {
				if live, err = json.Marshal(answer.Object); err != nil {
					return err
				}
				unstructured.RemoveNestedField(answer.Object, "metadata", "managedFields")
			}
			if err := answers.Encode(answer); err != nil {
				return err
			}
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
}

func (w *write) run(types managedfields.TypeConverter, kind schema.GroupVersionKind, before json.RawMessage) (*written, error) {
	live := &unstructured.Unstructured{Object: map[string]any{}}
	live.SetGroupVersionKind(kind)
	if before != nil {
		live.Object = map[string]any{}
		if err := utiljson.Unmarshal(before, &live.Object); err != nil {
			return nil, err
		}
	}
	sent := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(w.Object, &sent.Object); err != nil {
		return nil, err
	}
	reset := fieldpath.NewSet()
	if w.ResetFields != nil {
		if err := reset.FromJSON(bytes.NewReader(w.ResetFields)); err != nil {
			return nil, err
		}
	}
	version := kind.GroupVersion()
	filters := map[fieldpath.APIVersion]fieldpath.Filter{
		fieldpath.APIVersion(version.String()): fieldpath.NewExcludeSetFilter(reset),
	}
	served := oneVersion{version}
	manager, err := managedfields.NewDefaultCRDFieldManager(types, served, served, served, kind, version, w.Subresource, filters)
	if err != nil {
		return nil, err
	}
	var after runtime.Object
	if w.Op == "apply" {
		after, err = manager.Apply(live, sent, w.Manager, w.Force)
	} else {
		after, err = manager.Update(live, sent, w.Manager)
	}
	if err != nil {
		answer := &written{Error: err.Error(), Code: 500}
		var status apierrors.APIStatus
		if errors.As(err, &status) {
			answer.Code = status.Status().Code
			if details := status.Status().Details; details != nil {
				answer.Conflicts = details.Causes
			}
		}
		return answer, nil
	}
	object := after.(*unstructured.Unstructured)
	entries := object.GetManagedFields()
	answer := &written{Object: object.Object}
	for i := range entries {
		// The library has the clock of the machine. The cases are of the past.
		if entries[i].Time != nil && time.Since(entries[i].Time.Time) < time.Hour {
			entries[i].Time = w.Now.DeepCopy()
		}
		var fields fieldpath.Set
		if err := fields.FromJSON(entries[i].FieldsV1.GetRawReader()); err != nil {
			return nil, err
		}
		text, err := fields.ToJSON()
		if err != nil {
			return nil, err
		}
		answer.Fields = append(answer.Fields, string(text))
	}
	if len(entries) > 0 {
		object.SetManagedFields(entries)
	}
	answer.ManagedFields = entries
	return answer, nil
}

// oneVersion is the conversion, defaulting and creation of objects of a kind with one version.
type oneVersion struct {
	version schema.GroupVersion
}

func (o oneVersion) Convert(in, out, context any) error { return nil }

func (o oneVersion) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	kind := in.GetObjectKind().GroupVersionKind()
	if version, ok := target.(schema.GroupVersion); !ok || version != o.version {
		return nil, runtime.NewNotRegisteredErrForTarget("oracle", nil, target)
	}
	if kind.GroupVersion() != o.version {
		return nil, runtime.NewNotRegisteredErrForKind("oracle", kind)
	}
	return in, nil
}

func (o oneVersion) ConvertFieldLabel(schema.GroupVersionKind, string, string) (string, string, error) {
	return "", "", nil
}

func (o oneVersion) Default(runtime.Object) {}

func (o oneVersion) New(schema.GroupVersionKind) (runtime.Object, error) {
	return &unstructured.Unstructured{Object: map[string]any{}}, nil
}
