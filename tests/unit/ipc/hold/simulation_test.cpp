// SPDX-License-Identifier: Apache-2.0
// A holder with writers and readers that are played in this process: packets wait in queues, files are tokens that are
// counted, and anybody dies between any two steps. The state machines are the real ones. First anything happens, and
// each set that a reader gets must be one that somebody committed, whole. Then nobody dies or lags any more, and every
// reader must get the newest set, and no file may be left. A seed plays a schedule again: WEIR_HOLD_SEED=n.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ipc/hold/reading.hpp"
#include "ipc/hold/records.hpp"
#include "ipc/hold/session.hpp"
#include "ipc/hold/writing.hpp"
#include "seeds.hpp"

namespace weir::test {
namespace {

using namespace detail::hold;

/// A file that was sent. Its count of owners is that of the open copies.
using File = std::shared_ptr<const std::uint64_t>;

struct Memory {
  Memory(Bytes, File from) : file(std::move(from)) {}
  File file;
};

struct Parcel {
  Packet bytes;
  std::vector<File> files;
};

/// A connection: what goes each way, and the holder's session.
struct Line {
  explicit Line(Store<File>& store) : session(store) {}
  Session<File> session;
  std::deque<Parcel> up, down;
  bool cut = false;
};

/// What was committed: by epoch, the values of the segments that the tensors must have.
using Sets = std::map<std::uint64_t, std::vector<std::uint64_t>>;

class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed) {}

  void run() {
    for (int i = 0; i < 3; ++i) writers_.push_back(make_writer());
    for (int i = 0; i < 3; ++i) readers_.push_back(make_reader());
    for (std::size_t i = 60 + draw(200); i-- > 0;) step();
    calm_ = true;
    for (Writer& writer : writers_) flush(writer);
    for (std::size_t i = 0; i < readers_.size(); ++i) finish(readers_[i]);
    writers_.clear();
    readers_.clear();
    lines_.clear();
    store_.remove("set");
    EXPECT_EQ(store_.usage()->files, 0U);
    EXPECT_EQ(store_.usage()->bytes, 0U);
    for (const auto& file : files_) EXPECT_TRUE(file.expired()) << "a file was left open";
  }

 private:
  struct Writer {
    std::shared_ptr<Line> line;
    Writing writing;
    std::vector<std::uint64_t> sent;  // and not answered
    std::map<std::uint64_t, File> own;  // its memory, by value
    bool waits = true;  // for an answer, first that to the greeting
  };
  struct Reader {
    std::shared_ptr<Line> line;
    Reading<File, Memory> reading;
    std::uint64_t newest = 0;
    std::vector<std::shared_ptr<Memory>> holds;
  };

  std::size_t draw(std::size_t below) { return random_() % below; }
  bool one_in(std::size_t n) { return draw(n) == 0; }
  static spi::SegmentId id_of(std::uint64_t value) { return {1, value}; }

  File open_file(std::uint64_t value) {
    auto file = std::make_shared<const std::uint64_t>(value);
    files_.push_back(file);
    return file;
  }

  std::shared_ptr<Line> connect(Role role) {
    auto line = std::make_shared<Line>(store_);
    line->up.push_back({encode(Hello{protocol_version, role, "set"}), {}});
    lines_.push_back(line);
    return line;
  }
  Writer make_writer() { return {connect(Role::writer), {}, {}, {}, true}; }
  Reader make_reader() { return {connect(Role::reader), {}, 0, {}}; }

  void step() {
    switch (draw(5)) {
      case 0: return write(writers_[draw(writers_.size())]);
      case 1: return read(readers_[draw(readers_.size())]);
      case 2: case 3: return serve(*lines_[draw(lines_.size())]);
      default: return die();
    }
  }
  void die() {
    if (!one_in(4)) return;
    if (one_in(2)) {
      Writer& writer = writers_[draw(writers_.size())];
      close(*writer.line);
      writer = make_writer();
    } else {
      Reader& reader = readers_[draw(readers_.size())];
      close(*reader.line);
      reader = make_reader();
    }
  }
  void close(Line& line) {
    std::erase_if(lines_, [&](const auto& one) { return one.get() == &line; });
  }

  /// Send the packets of a set, perhaps not all of them, or take the answer.
  void write(Writer& writer) {
    Line& line = *writer.line;
    while (!line.down.empty()) take_answer(writer);
    if (writer.waits || line.cut) return;
    if (one_in(12) && !calm_) {
      line.up.push_back({encode(Remove{}), {}});
      writer.writing.forget();
      writer.waits = true;
      writer.sent.clear();
      return;
    }
    std::vector<spi::SegmentId> ids;
    std::vector<std::uint64_t> values;
    RecordWriter records;
    for (std::size_t i = 0, n = draw(5); i < n; ++i) {
      const std::uint64_t value = !writer.own.empty() && one_in(2) ? writer.own.begin()->first : ++last_value_;
      if (std::find(values.begin(), values.end(), value) != values.end()) continue;
      if (!writer.own.contains(value)) writer.own.emplace(value, open_file(value));
      values.push_back(value);
      ids.push_back(id_of(value));
      records.add({std::to_string(value), static_cast<std::uint32_t>(i), 0, 8, Layout{u8, {8}, {1}, 0}});
    }
    for (std::size_t at = 0; at < ids.size();) {
      std::vector<File> files;
      auto packet = writer.writing.tell(ids, at, [&](std::size_t i) {
        files.push_back(writer.own.at(values[i]));
        return detail::WireBytes(detail::wire_size);
      });
      line.up.push_back({std::move(packet.bytes), std::move(files)});
    }
    for (Packet& packet : records.finish()) line.up.push_back({std::move(packet), {}});
    const bool lease = one_in(2);
    line.up.push_back({encode(Commit{static_cast<std::uint32_t>(values.size()), static_cast<std::uint32_t>(ids.size()), lease}),
                       lease ? std::vector<File>{open_file(0)} : std::vector<File>{}});
    writer.sent = std::move(values);
    writer.waits = true;
  }
  void take_answer(Writer& writer) {
    const Parcel parcel = std::move(writer.line->down.front());
    writer.line->down.pop_front();
    const Message answer = decode(parcel.bytes);
    ASSERT_TRUE(writer.waits);
    writer.waits = false;
    if (std::holds_alternative<Welcome>(answer)) return;
    if (const auto* const done = std::get_if<Committed>(&answer)) {
      if (done->epoch == 0) return;
      std::vector<spi::SegmentId> ids;
      for (const std::uint64_t value : writer.sent) ids.push_back(id_of(value));
      writer.writing.committed(ids);
      while (writer.own.size() > 3) writer.own.erase(writer.own.begin());
    } else {
      const auto why = std::get<Refused>(answer).why;
      EXPECT_TRUE(why == Why::forgotten || why == Why::files || why == Why::no_more_files || why == Why::bytes ||
                  why == Why::tensors);
      writer.writing.forget();
    }
  }

  void read(Reader& reader) {
    Line& line = *reader.line;
    if (const auto question = reader.reading.ask(one_in(3) ? reader.newest : 0)) line.up.push_back({encode(*question), {}});
    for (std::size_t i = draw(4); i-- > 0 && !line.down.empty();) take(reader);
  }
  void take(Reader& reader) {
    Parcel parcel = std::move(reader.line->down.front());
    reader.line->down.pop_front();
    if (std::holds_alternative<Welcome>(decode(parcel.bytes))) return;
    auto arrived = reader.reading.receive(parcel.bytes, std::move(parcel.files));
    if (!arrived) return;
    std::vector<std::uint64_t> values;
    for (const auto& segment : arrived->segments) values.push_back(*segment->file);
    EXPECT_TRUE(committed_.contains(arrived->epoch));
    EXPECT_EQ(values, committed_[arrived->epoch]) << "epoch " << arrived->epoch;
    std::size_t tensors = 0;
    for (const Packet& packet : arrived->tensors) tensors += std::get<Tensors>(decode(packet)).count;
    EXPECT_EQ(tensors, values.size());
    reader.newest = arrived->epoch;
    reader.holds = arrived->segments;
  }

  /// Move packets between a session and its line, as the holder does.
  void serve(Line& line) {
    if (line.cut) return;
    if (!calm_ && one_in(30)) line.session.give_up_set();
    if (!line.up.empty() && one_in(2)) {
      Parcel parcel = std::move(line.up.front());
      line.up.pop_front();
      const bool lost = !calm_ && !parcel.files.empty() && one_in(30);
      if (lost) parcel.files.clear();
      const auto before = store_.find("set");
      ASSERT_NO_THROW(line.session.receive(parcel.bytes, std::move(parcel.files), lost));
      const auto now = store_.find("set");
      if (now && now != before) {
        auto& values = committed_[now->epoch];
        for (const auto& segment : now->segments) values.push_back(*segment->file);
      }
    } else if (line.session.has_packet()) {
      Parcel parcel;
      std::vector<const File*> files;
      line.session.compose(parcel.bytes, files);
      for (const File* file : files) parcel.files.push_back(*file);
      if (!calm_ && one_in(6)) return;  // the socket is full; the same is composed again
      line.down.push_back(std::move(parcel));
      line.session.sent();
    }
    EXPECT_LE(store_.usage()->files, 20U);
  }

  void drain(Line& line) {
    for (int i = 0; i < 2000 && (!line.up.empty() || line.session.has_packet()); ++i) serve(line);
  }
  void flush(Writer& writer) {
    for (int i = 0; i < 3 && writer.waits; ++i) {
      drain(*writer.line);
      write(writer);
    }
    drain(*writer.line);
    while (!writer.line->down.empty()) take_answer(writer);
    EXPECT_FALSE(writer.waits) << "a writer was never answered";
  }
  void finish(Reader& reader) {
    drain(*reader.line);
    while (!reader.line->down.empty()) take(reader);
    if (const auto question = reader.reading.ask(0)) reader.line->up.push_back({encode(*question), {}});
    drain(*reader.line);
    while (!reader.line->down.empty()) take(reader);
    if (const auto newest = store_.find("set")) {
      EXPECT_EQ(reader.newest, newest->epoch) << "a reader was not told";
    }
  }

  std::mt19937_64 random_;
  Store<File> store_{Limits{1, 100, 100000, 20}};
  std::vector<std::shared_ptr<Line>> lines_;
  std::vector<Writer> writers_;
  std::vector<Reader> readers_;
  std::vector<std::weak_ptr<const std::uint64_t>> files_;
  Sets committed_;
  std::uint64_t last_value_ = 0;
  bool calm_ = false;
};

TEST(HoldSimulation, NobodySeesAMixtureAndNothingIsLeft) {
  play_seeds("WEIR_HOLD_SEED", 10000, [](std::uint64_t seed) { World(seed).run(); });
}

}  // namespace
}  // namespace weir::test
