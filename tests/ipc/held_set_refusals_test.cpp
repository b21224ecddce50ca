// SPDX-License-Identifier: Apache-2.0
// What a holder refuses, and what clients and holders that lie achieve: sockets that speak the bytes of docs/ipc.md.

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "bytes.hpp"
#include "descriptor_fields.hpp"
#include "expect.hpp"
#include "holding.hpp"
#include "time_limits.hpp"
#include "weir/client.hpp"
#include "weir/held_set.hpp"
#include "weir/host.hpp"
#include "weir/ipc.hpp"
#include "weir/pool.hpp"
#include "weir/server.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;
using ipc::HeldSet;
using ipc::SetReader;
using ipc::SetWriter;

const std::chrono::seconds limit = answer_limit();

template <class T>
void put(Bytes& bytes, T value) {
  const auto* const raw = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), raw, raw + sizeof value);
}

/// A message: its type, its number, and 32-bit fields behind them.
Bytes message(std::uint32_t type, std::uint32_t number, const std::vector<std::uint32_t>& fields = {}) {
  Bytes made;
  put(made, type);
  put(made, number);
  for (const std::uint32_t field : fields) put(made, field);
  return made;
}

Bytes hello(std::uint32_t version, std::uint32_t role, const std::string& name) {
  Bytes made = message(1, version);
  for (const char c : std::string("weirhold")) made.push_back(static_cast<std::byte>(c));
  put(made, role);
  put(made, static_cast<std::uint32_t>(name.size()));
  for (const char c : name) made.push_back(static_cast<std::byte>(c));
  return made;
}

struct OneTensor {
  std::uint16_t name = 1;
  std::uint8_t dimensions = 1;
  std::uint8_t bits = 8;
  unsigned char letter = 'a';
  std::uint32_t segment = 0;
  std::uint64_t offset = 0, size = 100, byte_offset = 0;
  std::int64_t extent = 100, stride = 1;

  [[nodiscard]] Bytes packet(std::uint32_t count = 1) const {
    Bytes made = message(5, count);
    put(made, std::uint16_t{64});
    put(made, name);
    put(made, dimensions);
    put(made, std::uint8_t{1});
    put(made, bits);
    put(made, std::uint8_t{0});
    put(made, segment);
    put(made, std::uint16_t{1});
    put(made, std::uint16_t{0});
    for (const std::uint64_t field : {offset, size, byte_offset}) put(made, field);
    put(made, extent);
    put(made, stride);
    put(made, std::uint64_t{letter});
    return made;
  }
};

class Raw {
 public:
  explicit Raw(const std::string& path) : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path.c_str());
    if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("connect failed");
  }
  void send(const Bytes& bytes, const std::vector<int>& files = {}) const {
    iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
    if (!files.empty()) {
      header.msg_control = control;
      header.msg_controllen = CMSG_SPACE(files.size() * sizeof(int));
      cmsghdr* const rights = CMSG_FIRSTHDR(&header);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(files.size() * sizeof(int));
      std::memcpy(CMSG_DATA(rights), files.data(), files.size() * sizeof(int));
    }
    (void)::sendmsg(socket_.get(), &header, MSG_NOSIGNAL);
  }
  /// The type and the number of the next packet; 0 when the other end hung up.
  [[nodiscard]] std::pair<std::uint32_t, std::uint32_t> receive() const {
    std::uint32_t words[16] = {};
    for (;;) {
      const auto got = ::recv(socket_.get(), words, sizeof words, 0);
      if (got >= 0) return {words[0], words[1]};
      // A reset is told once, when the other end left something unread; what it sent before comes behind that.
      if (errno != ECONNRESET && errno != EINTR) throw std::runtime_error("recv failed");
    }
  }

 private:
  spi::UniqueFd socket_;
};

bool comes_to(const HolderThread& holder, std::size_t connections, std::size_t files) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (;;) {
    const auto stats = holder.stats();
    if (stats.connections == connections && stats.files == files) return true;
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
}

class HoldRefusals : public testing::Test {
 protected:
  // Patient, so that nobody who should be hung up at once is cut off for saying nothing.
  static constexpr ipc::HolderOptions options{
      .sets = 2, .tensors = 10, .bytes = 5000, .files = 4, .connections = 3, .patience = 24h};
  HolderThread holder{options};
  Stream stream{host_device()};
  ResourcePtr resource = host::make_shared_resource();

  [[nodiscard]] SetWriter writer(const std::string& name = "weights") const { return {holder.path(), name}; }
  void add(SetWriter& to, const std::string& name, std::size_t bytes = 100) const {
    Buffer buffer = resource->allocate(bytes, stream);
    buffer.fill(std::uint8_t{7}, stream);
    to.add(name, buffer.view(u8, {static_cast<std::int64_t>(bytes)}), stream);
  }
  bool comes_to(std::size_t connections, std::size_t files) const { return test::comes_to(holder, connections, files); }
  /// Commit one tensor as a lying writer does.
  void commit(const Raw& liar, const Bytes& tensor, const Bytes& descriptor, int file, std::uint32_t count = 1) const {
    liar.send(hello(1, 1, "weights"));
    ASSERT_EQ(liar.receive().first, 2U);
    Bytes segments = message(4, count, std::vector<std::uint32_t>(count, 0xffffffff));
    for (std::uint32_t i = 0; i < count; ++i) segments.insert(segments.end(), descriptor.begin(), descriptor.end());
    liar.send(segments, std::vector<int>(count, file));
    liar.send(tensor);
    liar.send(message(6, 1, {count, 0}));
    ASSERT_EQ(liar.receive().first, 7U);
  }
};

TEST_F(HoldRefusals, ARemovedSetTakesItsRefusalWithIt) {
  const auto whole = resource->allocate(4096, stream).ipc_descriptor(stream);
  Bytes segments = message(4, 1, {0xffffffff});
  segments.insert(segments.end(), whole.bytes().begin(), whole.bytes().end());
  const Raw raw(holder.path());
  raw.send(hello(1, 1, "weights"));
  ASSERT_EQ(raw.receive().first, 2U);
  raw.send(segments, {whole.fds()[0].get()});
  for (int i = 0; i <= static_cast<int>(options.tensors); ++i)
    raw.send(OneTensor{.letter = static_cast<unsigned char>('a' + i)}.packet());
  raw.send(message(8, 0));
  EXPECT_EQ(raw.receive(), (std::pair{7U, 0U}));
  raw.send(segments, {whole.fds()[0].get()});
  raw.send(OneTensor{}.packet());
  raw.send(message(6, 1, {1, 0}));
  EXPECT_EQ(raw.receive().first, 7U);
}

TEST_F(HoldRefusals, LimitsAreNamedAndAFullHolderGoesOn) {
  SetWriter one = writer();
  add(one, "kept");
  one.commit(limit);
  for (int i = 0; i < 11; ++i) one.add(std::to_string(i), resource->allocate(0, stream).view(u8, {0}), stream);
  EXPECT_ERROR(one.commit(limit), Errc::out_of_memory, "10 tensors");
  one.discard();
  for (int i = 0; i < 4; ++i) add(one, std::to_string(i));
  EXPECT_ERROR(one.commit(limit), Errc::out_of_memory, "4 files");
  one.discard();
  for (int i = 0; i < 10; ++i)
    one.add(std::to_string(i) + std::string(200, 'x'), resource->allocate(0, stream).view(u8, std::vector<std::int64_t>(20)), stream);
  EXPECT_ERROR(one.commit(limit), Errc::out_of_memory, "5000 bytes");
  SetReader reader(holder.path(), "weights");
  EXPECT_EQ(reader.open(stream, limit).tensors.count("kept"), 1U);  // the set before is still there
  one.discard();
  add(one, "next");
  one.commit(limit);
  EXPECT_EQ(reader.open(stream, limit).tensors.count("next"), 1U);
  EXPECT_TRUE(comes_to(2, 1));
}

TEST_F(HoldRefusals, SetsAndConnectionsAreCounted) {
  SetWriter one = writer("one"), two = writer("two"), three = writer("three");
  one.commit(limit);
  two.commit(limit);
  EXPECT_ERROR(three.commit(limit), Errc::out_of_memory, "2 sets");
  EXPECT_ERROR(writer("four"), Errc::out_of_memory, "3 connections; end writers and readers");
  one.remove(limit);
  EXPECT_GT(three.commit(limit), 0U);
}

TEST_F(HoldRefusals, ArgumentsAreChecked) {
  EXPECT_ERROR(writer(""), Errc::invalid_argument, "1 to 255");
  EXPECT_ERROR(writer(std::string(256, 'x')), Errc::invalid_argument, "256 bytes");
  EXPECT_ERROR(writer("caf\xe9"), Errc::invalid_argument, "'caf ' is not");
  EXPECT_ERROR(SetReader(holder.path(), std::string("a\0b", 3)), Errc::invalid_argument, "UTF-8");
  EXPECT_ERROR(SetWriter("", "a"), Errc::invalid_argument, "path");
  EXPECT_ERROR(SetWriter(std::string(200, 'x'), "a"), Errc::invalid_argument, "200");
  EXPECT_ERROR(SetReader(holder.path() + "2", "a"), Errc::peer_gone, "weir hold");
  SetWriter one = writer();
  add(one, "a");
  EXPECT_ERROR(add(one, "a"), Errc::invalid_argument, "'a'");
  EXPECT_ERROR(add(one, ""), Errc::invalid_argument, "SetWriter::add");
  EXPECT_ERROR(add(one, "a\xc2\x9b"), Errc::invalid_argument, "SetWriter::add");
  EXPECT_NO_THROW(add(one, "caf\xc3\xa9"));
  EXPECT_ERROR(one.add("b", resource->allocate(0, stream).view(u8, std::vector<std::int64_t>(65)), stream),
               Errc::invalid_argument, "65 dimensions");
  EXPECT_ERROR(one.add("b", make_resource(host_device())->allocate(9, stream).view(u8, {9}), stream), Errc::unsupported,
               "exportable");
  EXPECT_ERROR(ipc::Holder(holder.path()), Errc::permission_denied, "another holder");
  EXPECT_ERROR(ipc::Holder(holder.path() + "3", {.sets = 0}), Errc::invalid_argument, "limit");
  EXPECT_ERROR(ipc::Holder(holder.path() + "3", {.patience = 0ms}), Errc::invalid_argument, "patience");
  std::ofstream(holder.path() + "4") << "precious";
  EXPECT_ERROR(ipc::Holder(holder.path() + "4"), Errc::invalid_argument, "left alone");
  const ipc::Server server(holder.path() + "5");
  try {
    const ipc::Holder other(holder.path() + "5");
    ADD_FAILURE() << "a server listens there";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), std::errc::address_in_use) << error.what();
  }
  EXPECT_TRUE(ipc::Client(holder.path() + "5").list().empty()) << "its socket is there";
  struct stat status {};
  ASSERT_EQ(::stat(holder.path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST_F(HoldRefusals, ClientsThatBreakTheProtocolAreCutOff) {
  const std::vector<std::pair<Bytes, std::vector<int>>> wrong{
      {Bytes(3), {}},                              // no head
      {message(99, 0), {}},                        // no type
      {message(0x10006, 0, {0, 0}), {}},           // a reserved field
      {hello(1, 1, "again"), {}},                  // a second greeting
      {message(9, 1, {0, 0}), {}},                 // a reader's
      {message(7, 0, {1, 0}), {}},                 // a holder's
      {message(4, 1, {0}), {}},                    // a segment that was never told of
      {message(4, 1, {0xffffffff}), {}},           // without a descriptor
      {message(4, 0), {}},                         // of nothing
      {message(5, 0), {}},                         // no tensors
      {message(6, 1, {0, 0}), {}},                 // a commit of what did not come
      {message(6, 0, {0, 1}), {}},                 // without its file
      {message(6, 0, {0, 0}), {0}},                // with a file too many
      {message(6, 0, {0, 2}), {}},                 // a flag
      {message(8, 1), {}},                         // a removal of something
  };
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    const Raw client(holder.path());
    client.send(hello(1, 1, "weights"));
    EXPECT_EQ(client.receive().first, 2U);
    client.send(wrong[i].first, wrong[i].second);
    EXPECT_EQ(client.receive().first, 0U) << "case " << i;
  }
  for (const Bytes& first : {message(6, 0, {0, 0}), hello(1, 3, "weights"), hello(1, 1, ""), hello(1, 1, "a\n"),
                             hello(1, 2, "caf\xe9"), hello(1, 2, std::string(256, 'x'))}) {
    const Raw client(holder.path());
    client.send(first);
    EXPECT_EQ(client.receive().first, 0U);
  }
  const Raw other(holder.path());
  other.send(hello(2, 1, "weights"));
  EXPECT_EQ(other.receive(), (std::pair{3U, 1U}));
  EXPECT_EQ(other.receive().first, 0U);
  EXPECT_TRUE(comes_to(0, 0));
}

// The holder would keep an entry for each time, and send each to all readers, for the price of one segment.
TEST_F(HoldRefusals, AWriterNamesASegmentOnceInASet) {
  const auto whole = resource->allocate(4096, stream).ipc_descriptor(stream);
  const Bytes described(whole.bytes().begin(), whole.bytes().end());
  for (const bool at_once : {true, false}) {
    const Raw client(holder.path());
    commit(client, OneTensor{}.packet(), described, whole.fds()[0].get());
    for (int i = 0; i < 2; ++i) {  // once in each set
      client.send(message(4, 1, {0}));
      client.send(message(6, 0, {1, 0}));
      EXPECT_EQ(client.receive().first, 7U);
    }
    if (at_once) {
      client.send(message(4, 2, {0, 0}));
    } else {
      for (int i = 0; i < 2; ++i) client.send(message(4, 1, {0}));
    }
    client.send(message(6, 0, {2, 0}));
    EXPECT_EQ(client.receive().first, 0U) << "it was not cut off";
  }
}

TEST_F(HoldRefusals, AReaderBelievesNoWriter) {
  const Buffer buffer = resource->allocate(100, stream);
  const auto genuine = buffer.slice(0, 100).ipc_descriptor(stream);
  // The descriptor of the whole segment, as a writer tells of it: of the page.
  const Buffer page = resource->allocate(4096, stream);
  const auto whole = page.ipc_descriptor(stream);
  const Bytes descriptor(whole.bytes().begin(), whole.bytes().end());
  const Bytes part(genuine.bytes().begin(), genuine.bytes().end());
  const int file = whole.fds()[0].get();
  const auto refused = [&](const Bytes& tensor, const Bytes& described, int memory) {
    const Raw liar(holder.path());
    commit(liar, tensor, described, memory);
    SetReader reader(holder.path(), "weights");
    EXPECT_ERROR(reader.open(stream, limit), Errc::corrupt_descriptor, "");
  };
  {
    const Raw honest(holder.path());
    commit(honest, OneTensor{}.packet(), descriptor, file);
    SetReader reader(holder.path(), "weights");
    ipc::HeldSet set = reader.open(stream, limit);
    EXPECT_EQ(set.tensors.at("a").layout().shape[0], 100);
    // The descriptor grants more, which no set does.
    EXPECT_ERROR(set.tensors.at("a").buffer().fill(std::uint8_t{1}, stream), Errc::permission_denied, "");
  }
  refused(OneTensor{.name = 0}.packet(), descriptor, file);
  for (const unsigned char letter : {'\0', '\33', '\xe9'})
    refused(OneTensor{.letter = letter}.packet(), descriptor, file);
  refused(OneTensor{.name = 9}.packet(), descriptor, file);
  refused(OneTensor{.dimensions = 2}.packet(), descriptor, file);
  refused(OneTensor{.bits = 0}.packet(), descriptor, file);
  refused(OneTensor{.segment = 1}.packet(), descriptor, file);
  refused(OneTensor{.offset = 4000}.packet(), descriptor, file);
  refused(OneTensor{.offset = ~std::uint64_t{0}}.packet(), descriptor, file);
  refused(OneTensor{.size = 0}.packet(), descriptor, file);
  for (const std::uint64_t size : {std::uint64_t{4097}, ~std::uint64_t{0}, std::uint64_t{1} << 63U})
    refused(OneTensor{.size = size}.packet(), descriptor, file);
  refused(OneTensor{.byte_offset = 1}.packet(), descriptor, file);
  refused(OneTensor{.extent = 101}.packet(), descriptor, file);
  refused(OneTensor{.extent = -1}.packet(), descriptor, file);
  refused(OneTensor{.stride = -1}.packet(), descriptor, file);
  refused(OneTensor{.stride = std::int64_t{1} << 62}.packet(), descriptor, file);
  Bytes twice = OneTensor{}.packet(1);
  twice.resize(twice.size() + 8);
  refused(twice, descriptor, file);
  refused(OneTensor{}.packet(), Bytes(256), file);
  refused(OneTensor{}.packet(), part, genuine.fds()[0].get());  // not of a whole segment
  refused(OneTensor{}.packet(), descriptor, 0);                 // no memory
  EXPECT_TRUE(comes_to(0, 1));
}

TEST_F(HoldRefusals, AReaderAddsNoSizesThatOverflow) {
  HolderThread large({.files = 5});
  const Buffer page = resource->allocate(4096, stream);
  const auto whole = page.ipc_descriptor(stream);
  constexpr std::uint64_t quarter = std::uint64_t{1} << 62U;
  const Bytes described = wire::with(wire::with(whole.bytes(), wire::segment_size, quarter), wire::bytes, quarter);
  const Raw liar(large.path());
  commit(liar, OneTensor{.segment = 4}.packet(), described, whole.fds()[0].get(), 5);
  SetReader reader(large.path(), "weights");
  EXPECT_ERROR(reader.open(stream, limit), Errc::corrupt_descriptor, "segments of more than 2^64 bytes");
}

// What one memory holds does not go on in another where none is ever joined.
TEST_F(HoldRefusals, AReaderJoinsNoMemoryThatIsWhole) {
  HolderThread large({.files = 5});
  const Buffer page = resource->allocate(4096, stream);
  const auto whole = page.ipc_descriptor(stream);
  const Bytes descriptor(whole.bytes().begin(), whole.bytes().end());
  const Raw liar(large.path());
  commit(liar, OneTensor{.offset = 4000}.packet(), descriptor, whole.fds()[0].get(), 2);
  SetReader reader(large.path(), "weights");
  EXPECT_ERROR(reader.open(stream, limit), Errc::corrupt_descriptor, "never has several parts");
}

TEST(HoldPatience, ClientsThatSayNothingKeepNoPlace) {
  const HolderThread holder({.connections = 2, .patience = 20ms});
  const Raw one(holder.path()), two(holder.path()), too_many(holder.path());
  ASSERT_TRUE(comes_to(holder, 0, 0));
  for (const Raw* silent : {&one, &two}) EXPECT_EQ(silent->receive().first, 0U);
}

TEST(HoldPatience, AClientThatHasGreetedMayBeSilent) {
  const HolderThread holder({.patience = 2s});
  const Raw writer(holder.path()), reader(holder.path());
  writer.send(hello(1, 1, "weights"));
  reader.send(hello(1, 2, "weights"));
  ASSERT_EQ(writer.receive().first, 2U);
  ASSERT_EQ(reader.receive().first, 2U);
  const Raw later(holder.path());  // its end shows that the time has passed
  EXPECT_EQ(later.receive().first, 0U);
  writer.send(message(6, 0, {0, 0}));
  EXPECT_EQ(writer.receive().first, 7U);
  reader.send(message(9, 1, {0, 0}));
  EXPECT_EQ(reader.receive().first, 10U);
}

// Make a set "weights" of 10 000 tensors, which is more than a socket takes.
SetWriter commit_much(const HolderThread& holder, const Stream& stream) {
  const auto memory = host::make_shared_resource()->allocate(4096, stream);
  SetWriter writer(holder.path(), "weights");
  for (int i = 0; i < 10000; ++i) writer.add(std::string(200, 'a') + std::to_string(i), memory.view(u8, {8}), stream);
  (void)writer.commit();
  return writer;
}

// What it does not take lives until it does.
TEST(HoldPatience, AReaderThatStopsInTheMiddleOfASetIsCutOff) {
  const HolderThread holder({.patience = 100ms});
  const Stream stream(host_device());
  const SetWriter writer = commit_much(holder, stream);
  const Raw reader(holder.path());
  reader.send(hello(1, 2, "weights"));
  ASSERT_EQ(reader.receive().first, 2U);
  reader.send(message(9, 1, {0, 0}));
  while (holder.stats().connections != 1) std::this_thread::yield();  // the watchdog ends it
  SetReader honest(holder.path(), "weights");
  EXPECT_EQ(honest.open(stream, limit).tensors.size(), 10000U);
}

TEST(HoldPatience, AReaderThatAsksWithoutReadingIsCutOff) {
  const HolderThread holder({.patience = 1s});
  const Stream stream(host_device());
  const SetWriter writer = commit_much(holder, stream);
  const Raw reader(holder.path());
  reader.send(hello(1, 2, "weights"));
  ASSERT_EQ(reader.receive().first, 2U);
  for (std::uint32_t request = 1; holder.stats().connections != 1; ++request) {  // the watchdog ends it
    reader.send(message(9, request, {0, 0}));
    std::this_thread::sleep_for(1ms);
  }
}

// The set comes while the reader does something else.
TEST(HoldPatience, AnOpenThatEndedForWantOfTimeCanBeRepeatedAtAnyTime) {
  const HolderThread holder({.patience = 20ms});
  const Stream stream(host_device());
  SetReader reader(holder.path(), "weights");
  EXPECT_ERROR(reader.open(stream, 0ms), Errc::timed_out, "in time");
  const SetWriter writer = commit_much(holder, stream);
  while (holder.stats().connections != 1) std::this_thread::yield();  // the watchdog ends it
  EXPECT_EQ(reader.open(stream, limit).tensors.size(), 10000U);
}

// The holder has hung up before. It does so again if the reader takes only a part of the set, unless the rest fits the
// socket.
TEST(HoldPatience, AReaderThatHasNoTimeGetsASetThatIsMoreThanASocketTakes) {
  const HolderThread holder({.patience = 100ms});
  const Stream stream(host_device());
  SetReader reader(holder.path(), "weights");
  EXPECT_ERROR(reader.open(stream, 0ms), Errc::timed_out, "in time");
  const SetWriter writer = commit_much(holder, stream);
  while (holder.stats().connections != 1) std::this_thread::yield();  // the watchdog ends it
  std::optional<HeldSet> set;
  for (int round = 0; !set && round < 200; ++round) {
    try {
      set = reader.open(stream, 0ms);
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), Errc::timed_out) << error.what();
      for (int wait = 0; holder.stats().connections != 1 && wait < 200; ++wait) std::this_thread::sleep_for(1ms);
    }
  }
  ASSERT_TRUE(set);
  EXPECT_EQ(set->tensors.size(), 10000U);
}

// Epochs count anew there, so the reader would wait for one that is long past.
TEST(HoldPatience, AReaderWhoseTimeWasOverTakesNoOtherHolderForItsOwn) {
  const Folder folder;
  const Stream stream(host_device());
  std::optional<ipc::Holder> holder(std::in_place, folder / "holder");
  std::optional<Thread> runs(std::in_place, [&] { holder->run(); });
  SetReader reader(folder / "holder", "weights");
  EXPECT_ERROR(reader.open(stream, 0ms), Errc::timed_out, "in time");
  holder->stop();
  runs.reset();
  holder.reset();
  std::this_thread::sleep_for(20ms);  // older kernels tell files apart by the ticks of a clock
  holder.emplace(folder / "holder");
  runs.emplace([&] { holder->run(); });
  EXPECT_ERROR(reader.open(stream, limit), Errc::peer_gone, "");
  holder->stop();
}

TEST(HoldPatience, PartsOfASetAreForgottenAndSentAgain) {
  const HolderThread holder({.patience = 2s});
  const Stream stream(host_device());
  const auto whole = host::make_shared_resource()->allocate(4096, stream).ipc_descriptor(stream);
  Bytes segments = message(4, 1, {0xffffffff});
  segments.insert(segments.end(), whole.bytes().begin(), whole.bytes().end());
  const Raw writer(holder.path());
  writer.send(hello(1, 1, "weights"));
  ASSERT_EQ(writer.receive().first, 2U);
  writer.send(segments, {whole.fds()[0].get()});
  ASSERT_TRUE(comes_to(holder, 1, 1));
  ASSERT_TRUE(comes_to(holder, 1, 0));
  writer.send(OneTensor{}.packet());  // what follows is forgotten, too
  writer.send(message(6, 1, {1, 0}));
  EXPECT_EQ(writer.receive(), (std::pair{3U, 7U}));
  writer.send(segments, {whole.fds()[0].get()});
  writer.send(OneTensor{}.packet());
  writer.send(message(6, 1, {1, 0}));
  EXPECT_EQ(writer.receive().first, 7U);
  EXPECT_TRUE(comes_to(holder, 1, 1));
}

}  // namespace
}  // namespace weir::test
