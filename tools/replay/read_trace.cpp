// SPDX-License-Identifier: Apache-2.0
#include "replay/read_trace.hpp"

#include <array>
#include <optional>
#include <utility>

#include "replay/fields.hpp"
#include "replay/text_file.hpp"
#include "weir/fwd.hpp"

namespace weir::replay {
namespace {

constexpr std::array<std::string_view, 10> weir_names{
    "time", "thread", "device", "resource", "operation", "buffer", "bytes", "alignment", "stream", "result"};
constexpr std::array<std::string_view, 4> pytorch_names{"op", "addr", "size", "stream"};
constexpr std::array<std::string_view, 6> rmm_names{"Thread", "Time", "Action", "Pointer", "Size", "Stream"};
constexpr std::string_view weir_begins = "# weir trace ";

void add_weir(std::string_view line, std::uint64_t number, TraceBuilder& trace) {
  if (line.starts_with('#')) return;
  const Fields fields(line, '\t', weir_names, number);
  (void)fields.number(0);
  const Origin origin{fields.number(1), fields.number(8), number};
  const auto id = fields.number(5), bytes = fields.number(6), alignment = fields.number(7);
  const std::string_view operation = fields.text(4);
  if (operation == "trim") return trace.trim(origin, bytes);
  if (bytes == 0) return trace.skip_empty();
  if (operation == "allocate") {
    return fields.text(9) == "ok" ? trace.allocate(origin, id, bytes, alignment)
                                  : trace.refuse(origin, bytes, alignment);
  }
  if (operation == "use") return trace.use(origin, id);
  if (operation == "close") return trace.close(origin, id);
  fields.refuse(4, "allocate, use, close or trim");
}

void add_pytorch(std::string_view line, std::uint64_t number, TraceBuilder& trace) {
  const Fields fields(line, ',', pytorch_names, number);
  const Origin origin{0, fields.number(3), number};
  const auto id = fields.number(1), bytes = fields.number(2);
  const bool allocates = fields.text(0) == "a";
  if (!allocates && fields.text(0) != "f") fields.refuse(0, "a or f");
  if (bytes == 0) return trace.skip_empty();
  if (allocates) return trace.allocate(origin, id, bytes, default_alignment);
  trace.close(origin, id);
}

/// Return a pointer that C printed. Some C libraries have a name for null.
std::uint64_t pointer(const Fields& fields, std::size_t field) {
  return fields.text(field) == "(nil)" ? 0 : fields.number(field);
}

void add_rmm(std::string_view line, std::uint64_t number, TraceBuilder& trace) {
  const Fields fields(line, ',', rmm_names, number);
  if (fields.text(1).find_first_not_of("0123456789:.") != std::string_view::npos) {
    fields.refuse(1, "a time such as 11:26:50.990234");
  }
  const Origin origin{fields.number(0), pointer(fields, 5), number};
  const auto id = pointer(fields, 3), bytes = fields.number(4);
  const std::string_view action = fields.text(2);
  const bool allocates = action == "allocate", fails = action == "allocate failure";
  if (!allocates && !fails && action != "free" && action != "deallocate") {
    fields.refuse(2, "allocate, free or allocate failure");
  }
  if (bytes == 0) return trace.skip_empty();
  if (fails) return trace.refuse(origin, bytes, default_alignment);
  if (allocates) return trace.allocate(origin, id, bytes, default_alignment);
  trace.close(origin, id);
}

template <std::size_t count>
bool names_columns(std::string_view line, const std::array<std::string_view, count>& names) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto end = line.find(',');
    if (line.substr(0, end) != names[i] || (end == line.npos) != (i + 1 == count)) return false;
    line.remove_prefix(end == line.npos ? line.size() : end + 1);
  }
  return true;
}

/// Cuts a text into lines, without their line ends.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {}
  std::optional<std::string_view> next() {
    const auto end = text_.find('\n');
    if (end == text_.npos) return std::nullopt;
    std::string_view line = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++number_;
    return line;
  }
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  [[nodiscard]] bool torn() const noexcept { return !text_.empty(); }

 private:
  std::string_view text_;
  std::uint64_t number_ = 0;
};

struct Header {
  Format format;
  void (*add)(std::string_view line, std::uint64_t number, TraceBuilder& trace);
  std::string device, resource;
};

Header read_header(std::string_view line) {
  if (names_columns(line, pytorch_names)) return {Format::pytorch, &add_pytorch, {}, {}};
  if (names_columns(line, rmm_names)) return {Format::rmm, &add_rmm, {}, {}};
  if (!line.starts_with(weir_begins)) {
    throw TraceError(1, quoted(line) + " begins no trace that is known: of weir, of PyTorch (" +
                            "op,addr,size,stream), of RMM (Thread,Time,Action,Pointer,Size,Stream)");
  }
  static constexpr std::array<std::string_view, 3> names{"version", "device", "resource"};
  const Fields fields(line.substr(weir_begins.size()), '\t', names, 1);
  if (fields.number(0) != 1) fields.refuse(0, "1, which is all that this program reads");
  return {Format::weir, &add_weir, std::string(fields.text(1)), std::string(fields.text(2))};
}

}  // namespace

Trace parse_trace(std::string_view text) {
  Lines lines(text);
  const auto first = lines.next();
  if (!first) throw TraceError(1, "has no end; a trace has at least one whole line");
  const Header header = read_header(*first);
  TraceBuilder builder;
  while (const auto line = lines.next()) {
    if (!line->empty()) header.add(*line, lines.number(), builder);
  }
  Trace trace = std::move(builder).finish();
  trace.format = header.format;
  trace.device = header.device;
  trace.resource = header.resource;
  trace.torn = lines.torn();
  return trace;
}

Trace read_trace(const std::string& path) {
  const TextFile file = read_text_file(path);
  try {
    Trace trace = parse_trace(file.text);
    trace.torn = trace.torn || file.torn;
    return trace;
  } catch (const TraceError& error) {
    throw TraceError(error, path);
  }
}

}  // namespace weir::replay
