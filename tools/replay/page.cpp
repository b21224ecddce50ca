// SPDX-License-Identifier: Apache-2.0
// The page: two pictures and the report, in one file that needs nothing from elsewhere.
#include <algorithm>
#include <array>
#include <cstdio>
#include <initializer_list>
#include <utility>

#include "replay/report.hpp"
#include "weir/json.hpp"
#include "weir/labels.hpp"

namespace weir::replay {
namespace {

constexpr double left = 76, width = 1000, right = 12;

constexpr char style[] = R"(
:root { color-scheme: light dark; --back: #fff; --ink: #1c2430; --faint: #67707c; --rule: #dde2e8;
  --live: #1f6fd1; --reserved: #c2571a; --segments: #4b8b3b; }
@media (prefers-color-scheme: dark) { :root {
  --back: #12161c; --ink: #e4e8ee; --faint: #98a2af; --rule: #2b333d;
  --live: #6aaeff; --reserved: #ff9a5c; --segments: #86cf73; } }
body { background: var(--back); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; max-width: 1120px;
  margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.25em; } h2 { font-size: 1em; margin: 1.6em 0 .3em; }
svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--faint); font: 12px system-ui, sans-serif; }
.rule { stroke: var(--rule); stroke-width: 1; }
.cursor { stroke: var(--faint); stroke-width: 1; visibility: hidden; }
.live { color: var(--live); } .reserved { color: var(--reserved); } .segments { color: var(--segments); }
path { fill: currentColor; stroke: currentColor; stroke-width: 1.2; stroke-linejoin: round; }
path.live { fill-opacity: .35; } path.reserved { fill-opacity: .12; } path.segments { fill-opacity: .2; }
pre { overflow-x: auto; font: 13px/1.45 ui-monospace, monospace; }
#at { color: var(--faint); min-height: 1.5em; }
)";

constexpr char script[] = R"(
const columns = JSON.parse(document.getElementById('columns').textContent);
const at = document.getElementById('at'), before = at.textContent;
const size = b => { const u = ['B','KiB','MiB','GiB','TiB']; let i = 0;
  while (b >= 1024 && i < 4) { b /= 1024; ++i; }
  return b.toPrecision(4).replace(/\.?0+$/, '') + ' ' + u[i]; };
const band = (b, f) => b[0] === b[1] ? f(b[0]) : f(b[0]) + ' to ' + f(b[1]);
for (const picture of document.querySelectorAll('svg')) {
  picture.addEventListener('pointermove', event => {
    const box = picture.getBoundingClientRect(), view = picture.viewBox.baseVal;
    const x = (event.clientX - box.left) / box.width * view.width - LEFT;
    const c = columns[Math.min(columns.length - 1, Math.max(0, Math.floor(x / WIDTH * columns.length)))];
    at.textContent = 'operation ' + (c.begin + 1) + (c.end > c.begin + 1 ? ' to ' + c.end : '') + ': live ' +
      band(c.live, size) + ', reserved ' + band(c.reserved, size) + ', ' +
      band(c.segments, String) + ' SEGMENTS';
    const where = LEFT + Math.min(WIDTH, Math.max(0, x));
    for (const line of document.querySelectorAll('.cursor')) {
      line.setAttribute('x1', where); line.setAttribute('x2', where); line.style.visibility = 'visible'; }
  });
  picture.addEventListener('pointerleave', () => { at.textContent = before;
    for (const line of document.querySelectorAll('.cursor')) line.style.visibility = 'hidden'; });
}
)";

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string number(double value) {
  std::array<char, 400> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  return text.data();
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
  return text;
}

/// One diagram: its scale, and the areas drawn in it.
class Picture {
 public:
  Picture(std::uint64_t top, double height) : top_(std::max<std::uint64_t>(top, 1)), height_(height) {
    svg_ = "<svg viewBox=\"0 0 " + number(left + width + right) + ' ' + number(height + 34) +
           "\" role=\"img\">\n";
  }
  void rule(std::uint64_t value, const std::string& label) {
    const std::string level = number(y(value));
    svg_ += "<line class=\"rule\" x1=\"" + number(left) + "\" x2=\"" + number(left + width) + "\" y1=\"" +
            level + "\" y2=\"" + level + "\"/><text text-anchor=\"end\" x=\"" + number(left - 8) + "\" y=\"" +
            number(y(value) + 4) + "\">" + label + "</text>\n";
  }
  /// Draw the area from 0 to the most of each column. At the end of each column, the outline goes down to its least.
  void area(const char* name, const std::vector<Column>& columns, Band Column::*band) {
    const double step = width / static_cast<double>(std::max<std::size_t>(columns.size(), 1));
    std::string path = "M" + number(left) + ',' + number(y(0));
    double x = left;
    for (const Column& column : columns) {
      const auto& [low, high] = column.*band;
      const std::string most = number(y(high));
      path += 'L' + number(x) + ',' + most;
      x += step;
      path += 'L' + number(x) + ',' + most;
      if (low != high) path += 'L' + number(x) + ',' + number(y(low));
    }
    svg_ += "<path class=\"" + std::string(name) + "\" d=\"" + path + 'L' + number(x) + ',' + number(y(0)) +
            "Z\"/>\n";
  }
  [[nodiscard]] std::string finish(std::size_t operations) {
    const std::string under = number(height_ + 26);
    svg_ += "<line class=\"cursor\" y1=\"8\" y2=\"" + number(y(0)) + "\"/>\n<text x=\"" + number(left) +
            "\" y=\"" + under + "\">operation 1</text><text text-anchor=\"end\" x=\"" + number(left + width) +
            "\" y=\"" + under + "\">" + grouped(operations) + "</text>\n</svg>\n";
    return std::move(svg_);
  }

 private:
  [[nodiscard]] double y(std::uint64_t value) const {
    return 8 + height_ * (1 - static_cast<double>(value) / static_cast<double>(top_));
  }
  std::uint64_t top_;
  double height_;
  std::string svg_;
};

/// Return a round distance between rules: a power of two, or one, two or five times a power of ten. It makes three to
/// seven rules; two when `top` is 1.
std::uint64_t step_for(std::uint64_t top, bool binary) {
  std::uint64_t step = 1;
  const std::array<std::uint64_t, 3> decimal{2, 5, 10};
  for (std::uint64_t scale = 1; top / step > 6;) {
    if (binary) {
      step *= 2;
      continue;
    }
    for (const auto factor : decimal) {
      step = scale * factor;
      if (top / step <= 6) break;
    }
    scale *= 10;
  }
  return step;
}

std::string draw(const std::vector<Column>& columns, double height, bool binary,
                 std::initializer_list<std::pair<const char*, Band Column::*>> bands) {
  std::uint64_t top = 1;
  for (const auto& [name, band] : bands) {
    for (const Column& column : columns) top = std::max(top, (column.*band).high);
  }
  Picture picture(top + top / 20, height);
  const auto step = step_for(top, binary);
  for (std::uint64_t value = 0; value <= top; value += step) {
    picture.rule(value, binary ? cli::size_text(value) : grouped(value));
  }
  for (const auto& [name, band] : bands) picture.area(name, columns, band);
  return picture.finish(columns.empty() ? 0 : columns.back().end);
}

std::string data_of(const std::vector<Column>& columns) {
  cli::Json json;
  const auto write = [&](const char* name, const Band& band) {
    json.key(name).open('[').value(band.low).value(band.high).close(']');
  };
  json.open('[');
  for (const Column& column : columns) {
    json.open('{').pair("begin", column.begin).pair("end", column.end);
    write("live", column.live);
    write("reserved", column.reserved);
    write("segments", column.segments);
    json.close('}');
  }
  return json.close(']').text();
}

}  // namespace

std::string page_of(const Replay& replay, const Profile& profile) {
  const std::string title = escaped(replay.file + " on " + replay.spec);
  const std::string segments = profile.has_segments ? "segments" : "buffers";
  std::string page =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
      title + "</title>\n<style>" + style + "</style>\n</head>\n<body>\n<h1>" + title + "</h1>\n";
  page += "<h2><span class=\"live\">live</span> and <span class=\"reserved\">reserved</span> bytes</h2>\n";
  page += draw(profile.columns, 320, true, {{"reserved", &Column::reserved}, {"live", &Column::live}});
  page += "<h2 class=\"segments\">" + segments +
          (profile.has_segments ? " of the pool" : " from the driver") + "</h2>\n";
  page += draw(profile.columns, 110, false, {{"segments", &Column::segments}});
  page +=
      "<p id=\"at\">Point at a picture to read its values. Each column shows the least and the most of its "
      "operations.</p>\n";
  page += "<pre>" + escaped(text_of(replay)) + "</pre>\n";
  page += "<script type=\"application/json\" id=\"columns\">" + data_of(profile.columns) + "</script>\n";
  const std::string program = replaced(
      replaced(replaced(script, "LEFT", number(left)), "WIDTH", number(width)), "SEGMENTS", segments);
  return page + "<script>" + program + "</script>\n</body>\n</html>\n";
}

}  // namespace weir::replay
