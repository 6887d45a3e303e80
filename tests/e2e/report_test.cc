// SPDX-License-Identifier: Apache-2.0
// Reports in a real browser: checks the drawing, the page's script and zooming.
#include "lab/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/json.h"
#include "base/temporary_directory.h"

namespace tutti::lab {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string contents(const std::filesystem::path& file) {
  std::stringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// A page without the content of its style and script elements.
std::string markup(std::string page) {
  for (const std::string name : {"style", "script"})
    for (std::size_t at = page.find("<" + name); at != std::string::npos; at = page.find("<" + name, at + 1)) {
      const std::size_t inside = page.find('>', at) + 1;
      page.erase(inside, page.find("</" + name, inside) - inside);
    }
  return page;
}

struct Seen {
  std::string document;    // the markup after the script has run
  std::string console;     // what the browser logged
  std::string screenshot;  // PNG
};

class ReportInBrowser : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(directory_.path(), ""); }
  // TUTTI_REPORT_KEEP=FOLDER keeps pages and screenshots for inspection.
  void TearDown() override {
    if (const char* keep = std::getenv("TUTTI_REPORT_KEEP")) {
      std::filesystem::create_directories(keep);
      for (const auto& entry : std::filesystem::directory_iterator(folder_))
        if (entry.is_regular_file())
          std::filesystem::copy(entry, keep, std::filesystem::copy_options::overwrite_existing);
    }
  }

  // Runs a command with a time limit; `timeout` also ends the command's child processes.
  static int run(const std::string& command) { return std::system(("timeout -k 2 25 " + command).c_str()); }

  Seen open(const std::string& name) {
    const std::string base = (folder_ / name).string();
    const std::string command =
        "chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
        "--disable-component-update --disable-sync --hide-scrollbars --enable-logging=stderr "
        "--window-size=1100,2400 --user-data-dir=" +
        base + ".profile --screenshot=" + base + ".png --dump-dom file://" + base + ".html >" + base + ".dom 2>" +
        base + ".log </dev/null";
    EXPECT_EQ(run(command), 0) << contents(base + ".log");
    return {markup(contents(base + ".dom")), contents(base + ".log"), contents(base + ".png")};
  }

  static void expect_sound(const Seen& seen) {
    EXPECT_THAT(seen.document, HasSubstr("data-drawn=\"yes\""));
    EXPECT_THAT(seen.document, Not(HasSubstr("data-error=")));
    EXPECT_THAT(seen.console, Not(HasSubstr("CONSOLE")));
    EXPECT_THAT(seen.screenshot, StartsWith("\x89PNG"));
    EXPECT_GT(seen.screenshot.size(), 20'000u);  // an empty page is a tenth of that
  }

  const TemporaryDirectory directory_;
  const std::filesystem::path folder_{directory_.path()};
};

// A report with all kinds of content, a claim that fails and text that looks like markup.
Report full_report(const std::string& hostile) {
  using Kind = Timeline::Segment::Kind;
  ExperimentResult result;
  result.name = "sc11-figure2";
  result.device = hostile;
  result.columns = {"policy", "mean"};
  for (int i = 0; i < 30; ++i) result.rows.push_back({"policy" + std::to_string(i), i * 1.25});
  result.answer = {.sentence = "mean checkpoint shorter", .bars = {{"fifo", 1.9}, {"concert", 0.000976}}};
  result.claims = {{.id = "good", .what = "holds", .unit = "x", .paper = 2, .goal = 3, .ours = 2.5, .bound = 1},
                   {.id = "bad", .what = hostile, .unit = "%", .paper = 2, .goal = 3, .ours = 4.75}};
  result.charts = {
      {.title = "lines",
       .x_label = "servers",
       .y_label = "ms",
       .bars = false,
       .logarithmic_x = true,
       .lines = {{"fifo", {2, 4, 64}, {10, 20, 30}},
                 {"window", {2, 4, 64}, {10, 20, 30}},
                 {"paper", {2, 64}, {11, 31}, true}}},
      {.title = "bars", .x_label = "jobs", .y_label = "s", .bars = true, .lines = {{"fifo", {1, 2}, {3, 4}}}},
      {.title = "named",
       .x_label = "mix",
       .y_label = "times",
       .bars = true,
       .lines = {{"window", {0, 1}, {3, 4}}},
       .x_names = {"a long category", "and another"}}};
  result.timelines = {
      {.title = "Jobs",
       .jobs = {"one", hostile},
       .segments = {{.job = 0, .kind = Kind::kCompute, .from = 0, .to = 5},
                    {.job = 0, .kind = Kind::kInputOutput, .from = 5, .to = 9, .megabytes_per_second = 61.5},
                    {.job = 1, .kind = Kind::kCompute, .from = 0, .to = 6},
                    {.job = 1, .kind = Kind::kWaiting, .from = 6, .to = 9},
                    {.job = 1, .kind = Kind::kInputOutput, .from = 9, .to = 12, .megabytes_per_second = 82.5}}}};
  return {"A report", "tutti lab run", "today", {result}};
}

// Added after the page's own script. Uses the timeline as a person would and records what is shown after each step.
constexpr const char* kZooming = R"js(<script>
{
  const plot = document.querySelector(".timeline .plot"), seen = [];
  const range = () => document.querySelector(".timeline .range").textContent;
  const step = (action) => { action(); seen.push(range()); };
  const button = (title) => document.querySelector(`.timeline button[title="${title}"]`);
  const at = plot.getBoundingClientRect();
  const pointer = (type, x) => plot.dispatchEvent(new PointerEvent(type, {pointerId: 1, clientX: at.left + x, clientY: at.top + 5}));
  plot.setPointerCapture = () => {};  // fails for synthetic pointers
  window.requestAnimationFrame = (draw) => draw();
  step(() => button("Zoom in").click());
  step(() => plot.dispatchEvent(new KeyboardEvent("keydown", {key: "+"})));
  step(() => plot.dispatchEvent(new KeyboardEvent("keydown", {key: "0"})));
  step(() => plot.dispatchEvent(new WheelEvent("wheel", {deltaY: 100, clientX: at.right - 8, cancelable: true})));
  step(() => plot.dispatchEvent(new WheelEvent("wheel", {deltaY: -400 * Math.log(2), ctrlKey: true, clientX: at.right - 8, cancelable: true})));
  step(() => { pointer("pointerdown", 100); pointer("pointermove", 100 + 2 * at.width); pointer("pointerup", 100); });
  step(() => button("Show the whole run").click());
  document.body.dataset.ranges = seen.join("; ");
}
</script></body>)js";

TEST_F(ReportInBrowser, DrawsEverythingZoomsAndNoTextIsMarkup) {
  const std::string hostile = "<img src=x onerror=\"document.title='taken'\"></script><b>&";
  std::string page = to_html(full_report(hostile));
  page.replace(page.rfind("</body>"), 7, kZooming);
  std::ofstream(folder_ / "full.html") << page;
  const Seen seen = open("full");
  expect_sound(seen);
  EXPECT_THAT(seen.document, HasSubstr("<title>A report</title>"));
  EXPECT_THAT(seen.document, Not(HasSubstr("<img")));
  EXPECT_THAT(seen.document, Not(HasSubstr("<b>&amp;")));
  EXPECT_EQ(count(seen.document, "class=\"claim\""), 1u);
  EXPECT_EQ(count(seen.document, "class=\"claim fails\""), 1u);
  EXPECT_THAT(seen.document, HasSubstr("1 of 2 claims"));
  EXPECT_THAT(seen.document, HasSubstr("One claim does not hold"));
  EXPECT_EQ(count(seen.document, "class=\"chart\""), 3u);
  const std::size_t sentence = seen.document.find(">Mean checkpoint shorter.</p>");
  EXPECT_LT(sentence, seen.document.find("tutti lab run"));  // the answer is first
  EXPECT_LT(seen.document.find("class=\"rows\""), seen.document.find("class=\"timeline\""));
  EXPECT_EQ(count(seen.document, "class=\"answer-bar\""), 2u);
  EXPECT_THAT(seen.document, HasSubstr("976&nbsp;\u00b5s"));
  EXPECT_EQ(count(seen.document, "plot scale-axis"), 2u);  // for each unit of claims
  EXPECT_EQ(count(seen.document, "<polyline"), 3u);
  EXPECT_EQ(count(seen.document, "stroke-dasharray=\"7 7\""), 2u);  // the line over another one, and its key
  EXPECT_THAT(seen.document, HasSubstr("window (the same as fifo)"));
  EXPECT_EQ(count(seen.document, "<circle"), 8u);                  // three points and the key, twice
  EXPECT_EQ(count(seen.document, "paper-mark"), 3u);               // two and the key
  EXPECT_EQ(count(seen.document, "<rect class=\"compute\""), 3u);  // one of each in the key
  EXPECT_EQ(count(seen.document, "<rect class=\"waiting\""), 2u);
  EXPECT_EQ(count(seen.document, "<rect class=\"io\""), 3u);
  EXPECT_THAT(seen.document, HasSubstr(">61.5</text>"));
  EXPECT_EQ(count(seen.document, "class=\"hidden-row\""), 6u);
  EXPECT_THAT(seen.document,
              HasSubstr("data-ranges=\"3 to 9 s of 12 s; 4.5 to 7.5 s of 12 s; 0 to 12 s of 12 s; 0 to 12 s of 12 s; "
                        "6 to 12 s of 12 s; 0 to 6 s of 12 s; 0 to 12 s of 12 s\""));
}

// Without what differs between two runs: the date and the time that a run took.
Json comparable(const std::string& page) {
  const std::string_view begin = R"(<script type="application/json" id="data">)";
  const std::size_t from = page.find(begin) + begin.size();
  Json data = parse_json(page.substr(from, page.find("</script>", from) - from)).value_or(nullptr);
  data["generated"] = nullptr;
  for (std::size_t i = 0; i < data["results"].size(); ++i) data["results"][i]["seconds"] = nullptr;
  return data;
}

TEST_F(ReportInBrowser, TheCommandOnAPageWritesItAgain) {
  const std::string binary = TUTTI_BINARY, file = (folder_ / "a page.html").string();
  const std::string scenario = " " TUTTI_REPORT_SCENARIO " ";
  for (const std::string& command :
       {"sim run" + scenario +
            "--policy window --seed 7 --set servers.depth=2 --set 'applications.0.compute=10ms..20ms'",
        "sim run" + scenario + "--full --set applications.0.operations=5",
        "sim compare" + scenario + "--policies fifo,concert --seed 3",
        "sim compare" + scenario + "--policies fifo,concert --seeds 3 --set applications.0.operations=5",
        std::string("lab run sc11-figure2")}) {
    ASSERT_EQ(run(binary + " " + command + " --html '" + file + "' >/dev/null 2>&1"), 0);
    const Json first = comparable(contents(file));
    std::filesystem::remove(file);
    const std::string printed = first["command"].text();
    ASSERT_THAT(printed, StartsWith("tutti "));
    ASSERT_EQ(run(binary + printed.substr(5) + " >/dev/null 2>&1"), 0) << printed;
    EXPECT_EQ(comparable(contents(file)).dump(), first.dump()) << printed;
  }
}

TEST_F(ReportInBrowser, TheCommandLineWritesReports) {
  const std::string binary = TUTTI_BINARY;
  const std::string lab = (folder_ / "lab").string(), sim = (folder_ / "sim").string();
  ASSERT_EQ(run(binary + " lab run sc11-figure2 --json --html " + lab + ".html >" + lab + ".json 2>" + lab + ".err"),
            0);
  ASSERT_EQ(run(binary + " sim compare " TUTTI_REPORT_SCENARIO " --policies fifo,concert --html " + sim + ".html >" +
                sim + ".txt 2>" + sim + ".err"),
            0);
  const Seen experiment = open("lab"), scenario = open("sim");
  expect_sound(experiment);
  EXPECT_EQ(count(experiment.document, "class=\"claim\""), 2u);
  EXPECT_EQ(count(experiment.document, "class=\"chart\""), 1u);
  expect_sound(scenario);
  EXPECT_EQ(count(scenario.document, "class=\"timeline\""), 2u);
  EXPECT_GE(count(scenario.document, "<rect class=\"io\""), 2 * 9u);
  EXPECT_EQ(count(scenario.document, "<rect class=\"waiting\""), 0u);  // no legend for what does not occur
  const std::string printed = contents(sim + ".txt");
  EXPECT_GT(printed.find("mean phase "), printed.find("fairness")) << "the answer is last";
  EXPECT_NE(run(binary + " lab run sc11-figure2 --html /nonexistent/page.html >/dev/null 2>" + lab + ".err"), 0);
  EXPECT_THAT(contents(lab + ".err"), HasSubstr("/nonexistent/page.html"));
}

}  // namespace
}  // namespace tutti::lab
