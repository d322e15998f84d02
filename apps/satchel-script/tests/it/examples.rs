//! Scripts as people and models write them: each runs as it is.

use satchel_starlark::protocol::FromWorker;
use serde_json::{Value, json};

use crate::worker::{Told, calls, evaluate, evaluate_run, run};

fn files(told: &Told) -> Vec<&str> {
    let names = told.said.iter().filter_map(|message| match message {
        FromWorker::Create(file) => Some(file.filename.as_str()),
        _ => None,
    });
    names.collect()
}

/// The value of the script and the names of the files that it made.
fn check(script: &str, value: Value, made: &[&str]) {
    let told = evaluate(script);
    assert_eq!(told.outcome, Ok(value), "{script}");
    assert_eq!(files(&told), made, "{script}");
}

#[test]
fn a_chart_is_made_and_analysed() {
    let mut run = run(r#"
# Script creates chart
chart_id = attachment_create(
    content=generate_chart_data(),
    filename="chart.png",
    description="Sales chart"
)

# Script calls analysis tool
analysis_id = tools_execute("analyze_data", data=my_data)

return "Created chart and analysis"
"#);
    run.globals.insert("my_data".to_owned(), json!([1, 2]));
    let told = evaluate_run(run);
    assert_eq!(told.outcome, Ok(json!("Created chart and analysis")));
    assert_eq!(files(&told), ["chart.png"]);
    assert_eq!(calls(&told)[1].named["data"], json!([1, 2]));
}

#[test]
fn some_of_the_files_are_chosen() {
    let mut run = run(r#"
# Script creates 3 attachments
id1 = attachment_create(content=data1, filename="file1.txt")
id2 = attachment_create(content=data2, filename="file2.txt")
id3 = attachment_create(content=data3, filename="file3.txt")

# Return only specific ones
return {
    "text": "Created 3 files, returning first 2",
    "attachment_ids": [id1, id2]
}
"#);
    for name in ["data1", "data2", "data3"] {
        run.globals.insert(name.to_owned(), json!(name));
    }
    let told = evaluate_run(run);
    assert_eq!(
        told.outcome,
        Ok(json!({"text": "Created 3 files, returning first 2", "attachment_ids": ["file-1", "file-2"]}))
    );
}

#[test]
fn notes_are_counted() {
    check(
        "result = json_decode(search_notes(query=\"TODO\"))\nreturn f\"Found {len(result)} items\"\n",
        json!("Found 2 items"),
        &[],
    );
    check(
        "\nnotes = json_decode(search_notes(query=\"TODO\"))\ncount = len(notes) if notes else 0\nreturn f\"Found {count} TODO items\"\n",
        json!("Found 2 TODO items"),
        &[],
    );
    check("\nresult = 2 + 2\nreturn f\"Result is {result}\"\n", json!("Result is 4"), &[]);
}

#[test]
fn files_and_tools_are_mixed() {
    check(
        "\nid1 = attachment_create(content=\"data1\", filename=\"file1.txt\")\nid2 = attachment_create(content=\"data2\", filename=\"file2.txt\")\nid3 = tools_execute(\"generate_chart\", data=\"test\")\nreturn \"Created 3 attachments\"\n",
        json!("Created 3 attachments"),
        &["file1.txt", "file2.txt"],
    );
    check(
        "\nid1 = attachment_create(content=\"data\", filename=\"file.txt\")\nreturn {\"attachment_ids\": [id1, id1, id1]}  # Same ID 3 times\n",
        json!({"attachment_ids": ["file-1", "file-1", "file-1"]}),
        &["file.txt"],
    );
}

#[test]
fn a_report_is_written() {
    let told = evaluate(
        r##"
# Script creates a report
report_content = "# Report\n\nGenerated at: " + time_now()
report_id = attachment_create(
    content=report_content,
    filename="report.md",
    description="Weekly report",
    mime_type="text/markdown"
)

return "Report generated successfully"
"##,
    );
    assert_eq!(told.outcome, Ok(json!("Report generated successfully")));
    let FromWorker::Create(file) = &told.said[0] else { panic!("{:?}", told.said) };
    assert_eq!((file.description.as_str(), file.mime_type.as_str()), ("Weekly report", "text/markdown"));
}

#[test]
fn charts_are_made_by_tools() {
    check(
        "# Script calls visualization tool\nchart_result = tools_execute(\n    \"create_chart\",\n    data=[1, 2, 3, 4, 5],\n    chart_type=\"line\"\n)\n\nreturn \"Chart created: \" + chart_result\n",
        json!("Chart created: made-by-create_chart"),
        &[],
    );
    let told = evaluate(
        r#"
# Script creates multiple visualizations
results = []

for metric in ["sales", "revenue", "growth"]:
    chart_id = tools_execute(
        "create_chart",
        metric=metric,
        period="monthly"
    )
    results.append({"metric": metric, "chart_id": chart_id})

return {"created_charts": results}
"#,
    );
    assert_eq!(calls(&told).len(), 3);
    let made = |metric: &str| json!({"metric": metric, "chart_id": "made-by-create_chart"});
    assert_eq!(told.outcome, Ok(json!({"created_charts": [made("sales"), made("revenue"), made("growth")]})));
}

#[test]
fn the_last_of_three_files_is_named() {
    check(
        r#"
# Script creates temporary and final attachments
temp_id = attachment_create(content="temp", filename="temp.txt")
intermediate_id = attachment_create(content="intermediate", filename="intermediate.txt")
final_id = attachment_create(content="final", filename="final.txt")

# Only return the final result
return {
    "text": "Processing complete",
    "attachment_ids": [final_id]
}
"#,
        json!({"text": "Processing complete", "attachment_ids": ["file-3"]}),
        &["temp.txt", "intermediate.txt", "final.txt"],
    );
}
