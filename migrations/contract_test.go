package migrations_test

import (
	"slices"
	"strings"
	"testing"

	"velocityd/tools/enginetest"
)

// TestPublicProceduresKeepTheirContract holds the procedures that other people's programs call to their contract: the
// parameters, and the first columns of the answer. A change of a type or an order needs a procedure of another name;
// columns are added at the end.
func TestPublicProceduresKeepTheirContract(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_master (id, rate, `window`) VALUES (1, 5, 60)")
		for _, c := range []struct{ name, parameters, call, columns string }{
			{
				"check_velocity", "p_zone_id int, p_bucket_key varchar(256)", "(1, 'alice')",
				"blocked txn_id zone_id bucket_key rate window remaining retry_after checked_at would_block velocity reason " +
					"override_id reset_after",
			},
			{
				"check_velocity_buckets", "p_buckets json, p_attempt_id varchar(65)",
				`('[{"zone_id":1,"bucket_key":"alice"}]', 'a')`,
				"blocked txn_id zone_id bucket_key rate window remaining retry_after checked_at would_block velocity reason " +
					"override_id reset_after",
			},
			{
				"peek_velocity", "p_zone_id int, p_bucket_key varchar(256)", "(1, 'alice')",
				"zone_id bucket_key mode rate window velocity remaining retry_after locked_until override_id override_action " +
					"checked_at reason reset_after",
			},
			{"report_outcome", "p_txn_id bigint unsigned, p_outcome varchar(16)", "(1, 'success')", "txn_id outcome"},
			{
				"report_attempt", "p_attempt_id varchar(65), p_outcome varchar(16)", "('a', 'success')",
				"attempt_id outcome txn_id",
			},
			{"report_outcomes", "p_reports json", `('[{"txn_id":1,"outcome":"success"}]')`, "report_no status txn_id outcome"},
			{
				"release_bucket", "p_zone_id int, p_bucket_key varchar(256), p_principal varchar(129), p_reason varchar(256)",
				"(1, 'alice', 'me', 'why')", "zone_id bucket_key",
			},
			{"note_export", "p_zone_id int, p_principal varchar(129), p_filter json", "(0, NULL, '{}')", ""},
			{
				"list_txns", "p_zone_id int, p_bucket_key varchar(256), p_since datetime(6), p_until datetime(6), p_limit int",
				"(1, 'alice', NULL, NULL, NULL)", "id created_at zone_id bucket_key blocked would_block counted uncounted_at " +
					"reason override_id outcome attempt_id check_id check_buckets attempts last_at",
			},
			{
				"explain_txn", "p_txn_id bigint unsigned", "(1)", "summary id created_at zone_id bucket_key blocked would_block " +
					"counted uncounted_at reason override_id outcome attempt_id check_id check_buckets attempts last_at rate " +
					"window period velocity opens_at",
			},
			{"first_txn_since", "p_since datetime(6), p_txn_id bigint unsigned", "(NULL, @first)", ""},
		} {
			parameters := rows(t, d, "SELECT CONCAT(parameter_name, ' ', dtd_identifier) AS p FROM "+
				"information_schema.parameters WHERE specific_schema = DATABASE() AND specific_name = ? ORDER BY "+
				"ordinal_position", c.name)
			got := strings.ReplaceAll(strings.Join(parameters, ", "), "p=", "")
			// MariaDB's words.
			got = strings.NewReplacer("int(11)", "int", "bigint(20)", "bigint", "longtext", "json").Replace(got)
			if got != c.parameters {
				t.Errorf("%s takes (%s), want (%s)", c.name, got, c.parameters)
			}
			result, err := d.SQL.Query("CALL " + c.name + c.call)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			columns, err := result.Columns()
			want := strings.Fields(c.columns)
			if err := result.Err(); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			if err != nil || len(columns) < len(want) || !slices.Equal(columns[:len(want)], want) {
				t.Errorf("%s answers with %q, want first %q", c.name, columns, want)
			}
			_ = result.Close()
		}
	})
}
