package ratelimit

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"

	"velocityd/handlers/gate"
	"velocityd/service"
)

// zone is a zone in a file, with the settings that have another value than the default.
type zone struct {
	ID          int64        `yaml:"id"`
	Description string       `yaml:"description"`
	Rate        int          `yaml:"rate"`
	Window      int64        `yaml:"window"`
	Mode        service.Mode `yaml:"mode,omitempty"`
}

// ZonesFile returns the zones as a file for 'velocityd zone apply'.
func (i Import) ZonesFile() ([]byte, error) {
	file := struct {
		Zones []zone `yaml:"zones"`
	}{}
	for _, z := range i.Zones {
		file.Zones = append(file.Zones, zone{z.ID, z.Description, z.Rate, service.WholeSeconds(z.Window), z.Mode})
	}
	return text(file)
}

// GatesFile returns the rules as a file for 'velocityd serve --gates'. The error is that of a file which the service
// would not take.
func (i Import) GatesFile() ([]byte, error) {
	written, err := text(struct {
		Domains map[string]gate.Domain `yaml:"domains"`
	}{i.Domains})
	if err != nil {
		return nil, err
	}
	if _, err := gate.Parse(written); err != nil {
		return nil, fmt.Errorf("the rules are no file of gates: %w", err)
	}
	return written, nil
}

func text(file any) ([]byte, error) {
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(file); err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	return b.Bytes(), encoder.Close()
}
