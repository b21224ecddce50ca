// SPDX-License-Identifier: Apache-2.0
// The two halves of a connection, each against a peer that says anything.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>

#include "bytes.hpp"
#include "expect.hpp"
#include "ipc/channel/borrower.hpp"
#include "ipc/channel/lender.hpp"

namespace weir::test {
namespace {

using namespace detail::channel;
using Held = std::shared_ptr<int>;

struct Memory {
  std::uint64_t bytes = 0;
  [[nodiscard]] std::uint64_t size() const noexcept { return bytes; }
};

Held held(int value = 1) { return std::make_shared<int>(value); }

const Memory& arrive(Borrower<Memory>& borrower, const Grant& grant) {
  const Memory& memory = borrower.check(grant);
  borrower.arrive(grant.segment);
  return memory;
}

TEST(Lender, KeepsWhatIsLentUntilItIsReleased) {
  Lender<Held> lender;
  lender.open_window(10);
  const Held one = held();
  const auto number = lender.lend(one);
  EXPECT_EQ(one.use_count(), 2);
  EXPECT_EQ(lender.live(), 1U);
  EXPECT_EQ(lender.release(number), one);
  EXPECT_EQ(one.use_count(), 1);
  EXPECT_EQ(lender.live(), 0U);
}

TEST(Lender, TakesNoReleaseTwice) {
  Lender<Held> lender;
  lender.open_window(10);
  const auto number = lender.lend(held());
  (void)lender.release(number);
  EXPECT_ERROR(lender.release(number), Errc::corrupt_descriptor, "does not have");
  const auto again = lender.lend(held());
  EXPECT_NE(again, number) << "the slot is the same";
  EXPECT_ERROR(lender.release(number), Errc::corrupt_descriptor, "does not have");
  for (const std::uint64_t wrong : {std::uint64_t{0}, again + 1, again + (std::uint64_t{1} << 32U), ~std::uint64_t{0}})
    EXPECT_ERROR(lender.release(wrong), Errc::corrupt_descriptor, "does not have");
  EXPECT_EQ(lender.live(), 1U);
}

TEST(Lender, SendsNoMoreThanThePeerTakes) {
  Lender<Held> lender;
  EXPECT_EQ(lender.room(), 0U);
  lender.open_window(3);
  for (std::uint32_t left = 3; left > 0; --left) {
    EXPECT_EQ(lender.room(), left);
    (void)lender.lend(held());
  }
  EXPECT_EQ(lender.room(), 0U);
  EXPECT_ERROR(lender.credit(0), Errc::corrupt_descriptor, "it took 0");
  EXPECT_ERROR(lender.credit(4), Errc::corrupt_descriptor, "it took 4");
  lender.credit(2);
  EXPECT_EQ(lender.room(), 2U);
}

// Segments of several parts, whose files the peer keeps open until it opens them.
TEST(Lender, HasFewFilesOnTheirWay) {
  Lender<int> lender;
  lender.open_window(10);
  EXPECT_TRUE(lender.takes_files(250)) << "nothing is on its way";
  lender.tell_files(250);
  const auto first = lender.lend(1);
  EXPECT_TRUE(lender.takes_files(1)) << "of each buffer, the window is the limit";
  EXPECT_TRUE(lender.takes_files(6));
  EXPECT_FALSE(lender.takes_files(7));
  lender.tell_files(6);
  const auto second = lender.lend(2);
  EXPECT_FALSE(lender.takes_files(2));
  (void)lender.lend(0);  // of a segment that the peer knows
  lender.credit(1);
  EXPECT_TRUE(lender.takes_files(250)) << "the first ones were opened";
  EXPECT_FALSE(lender.takes_files(251));
  lender.tell_files(200);
  lender.credit(2);  // before the buffer is lent with which they go
  EXPECT_TRUE(lender.takes_files(56));
  EXPECT_FALSE(lender.takes_files(57)) << "none of the last ones was opened";
  (void)lender.lend(0);
  lender.credit(1);
  EXPECT_TRUE(lender.takes_files(1000)) << "nothing is on its way";
  (void)lender.release(first);
  (void)lender.release(second);
}

// Of a packet with several segments. A buffer before them is still on its way.
TEST(Lender, HasNoFilesOnTheirWayThatWereNotSent) {
  Lender<int> lender;
  lender.open_window(10);
  const int memory[3] = {};
  const auto whole = [&](std::size_t i) { return ToldOf{&memory[i], ipc::Access::read_write}; };
  const auto tell = [&](std::size_t i, std::size_t files) {
    EXPECT_TRUE(lender.tell(whole(i)).first);
    lender.tell_files(files);
  };
  tell(0, 100);
  (void)lender.lend(0);
  tell(1, 100);
  const auto unsent = lender.lend(1);
  tell(2, 50);  // and the stream cannot be asked, so no buffer follows
  EXPECT_FALSE(lender.takes_files(7));
  EXPECT_TRUE(lender.unlend(unsent));
  for (const std::size_t i : {1, 2}) lender.untell(whole(i));
  EXPECT_TRUE(lender.takes_files(156));
  EXPECT_FALSE(lender.takes_files(157));
  lender.credit(1);
  EXPECT_TRUE(lender.takes_files(257));
}

TEST(Lender, UndoesWhatWasNotSent) {
  Lender<Held> lender;
  lender.open_window(1);
  const int memory = 0;
  const ToldOf id{&memory, ipc::Access::read_write};
  const auto told = lender.tell(id);
  EXPECT_TRUE(told.first);
  const auto number = lender.lend(held(5));
  EXPECT_EQ(**lender.unlend(number), 5);
  lender.untell(id);
  EXPECT_EQ(lender.room(), 1U);
  EXPECT_EQ(lender.live(), 0U);
  const auto again = lender.tell(id);
  EXPECT_TRUE(again.first);
  EXPECT_GT(again.number, told.number) << "numbers only grow";
}

TEST(Lender, NoticesAnswersToWhatWasNotSent) {
  Lender<Held> lender;
  lender.open_window(3);
  const auto sent = lender.lend(held(1)), first = lender.lend(held(2)), second = lender.lend(held(3));
  (void)lender.release(first);
  EXPECT_FALSE(lender.unlend(first)) << "it was released";
  EXPECT_TRUE(lender.unlend(second));
  lender.credit(2);
  const auto third = lender.lend(held(4));
  lender.credit(1);
  EXPECT_FALSE(lender.unlend(third)) << "it was taken";
  EXPECT_EQ(lender.room(), 3U);
  EXPECT_EQ(lender.live(), 2U) << "what is left comes back at the end";
  EXPECT_EQ(*lender.release(sent), 1);
}

TEST(Lender, TellsOfASegmentOnceAndOfItsEnd) {
  Lender<Held> lender;
  const int memory = 0, more = 0;
  const ToldOf one{&memory, ipc::Access::read_write}, other{&more, ipc::Access::read_write};
  EXPECT_TRUE(lender.tell(one).first);
  EXPECT_FALSE(lender.tell(one).first);
  EXPECT_TRUE(lender.tell(other).first);
  EXPECT_EQ(lender.tell(other).number, lender.tell(one).number + 1);
  EXPECT_EQ(lender.ended(one), 1U);
  EXPECT_FALSE(lender.ended(one));
  EXPECT_EQ(lender.told(), 1U);
  EXPECT_EQ(lender.tell(one).number, 3U);
}

TEST(Lender, TellsOfASegmentOnceForEachAccess) {
  Lender<Held> lender;
  const int memory = 0;
  const ToldOf reads{&memory, ipc::Access::read_only}, writes{&memory, ipc::Access::read_write};
  EXPECT_TRUE(lender.tell(reads).first);
  EXPECT_TRUE(lender.tell(writes).first) << "a number with less access served for more";
  EXPECT_NE(lender.tell(reads).number, lender.tell(writes).number);
  EXPECT_EQ(lender.told(), 2U);
  lender.untell(writes);
  EXPECT_FALSE(lender.tell(reads).first);
  EXPECT_EQ(lender.ended(writes), std::nullopt);
  EXPECT_EQ(lender.ended(reads), 1U);
}

TEST(Lender, HasEverythingBackAtTheEnd) {
  Lender<Held> lender;
  lender.open_window(100);
  const Held kept = held();
  std::set<std::uint64_t> numbers;
  for (int i = 0; i < 50; ++i) numbers.insert(lender.lend(kept));
  EXPECT_EQ(numbers.size(), 50U);
  (void)lender.release(*numbers.begin());
  const auto back = lender.end();
  EXPECT_EQ(std::ranges::count_if(back, [&](const auto& slot) { return slot.is_grant() && slot.held == kept; }), 49);
  EXPECT_EQ(kept.use_count(), 50) << "nothing is left with the lender";
  EXPECT_EQ(lender.live(), 0U);
  for (const auto number : numbers) EXPECT_ERROR(lender.release(number), Errc::corrupt_descriptor, "does not have");
}

Grant grant_of(std::uint32_t segment, std::uint64_t offset, std::uint64_t size) {
  return {1, segment, offset, size, {}, {}};
}

TEST(Borrower, TakesOnlyWhatLiesInTheSegment) {
  Borrower<Memory> borrower(10);
  borrower.add(1, {100});
  EXPECT_EQ(arrive(borrower, grant_of(1, 0, 100)).bytes, 100U);
  EXPECT_EQ(arrive(borrower, grant_of(1, 99, 1)).bytes, 100U);
  for (const auto& wrong : {grant_of(1, 0, 101), grant_of(1, 1, 100), grant_of(1, 100, 1), grant_of(1, 0, 0),
                            grant_of(1, ~std::uint64_t{0}, 2), grant_of(1, 2, ~std::uint64_t{0})})
    EXPECT_ERROR(arrive(borrower, wrong), Errc::corrupt_descriptor, "of a segment of 100");
  EXPECT_ERROR(arrive(borrower, grant_of(2, 0, 1)), Errc::corrupt_descriptor, "never told");
  EXPECT_EQ(borrower.arrived(), 2U);
}

TEST(Borrower, TakesEachSegmentOnce) {
  Borrower<Memory> borrower(10);
  borrower.add(3, {1});
  EXPECT_ERROR(borrower.add(3, {1}), Errc::corrupt_descriptor, "segment 3");
  EXPECT_ERROR(borrower.add(2, {1}), Errc::corrupt_descriptor, "segment 2");
  EXPECT_EQ(borrower.retire(3).bytes, 1U);
  EXPECT_ERROR(borrower.retire(3), Errc::corrupt_descriptor, "never told");
  EXPECT_ERROR(borrower.add(3, {1}), Errc::corrupt_descriptor, "segment 3");
  EXPECT_ERROR(arrive(borrower, grant_of(3, 0, 1)), Errc::corrupt_descriptor, "never told");
}

TEST(Borrower, KeepsNoMoreThanItSaid) {
  Borrower<Memory> borrower(3);
  for (std::uint32_t i = 1; i <= 3; ++i) borrower.add(i, {10});
  EXPECT_ERROR(borrower.add(4, {10}), Errc::corrupt_descriptor, "more than 3 segments");
  for (int i = 0; i < 3; ++i) (void)arrive(borrower, grant_of(1, 0, 1));
  EXPECT_ERROR(arrive(borrower, grant_of(1, 0, 1)), Errc::corrupt_descriptor, "more than 3 buffers");
  borrower.take(1);
  EXPECT_ERROR(arrive(borrower, grant_of(1, 0, 1)), Errc::corrupt_descriptor, "more than 3 buffers") << "not credited";
  PacketWriter packet;
  borrower.tell(packet);
  (void)arrive(borrower, grant_of(1, 0, 1));  // the packet may have been sent by now
  borrower.told();
  borrower.take(1);  // a second buffer, which counts no more
  borrower.add(4, {10});
  EXPECT_ERROR(borrower.add(5, {10}), Errc::corrupt_descriptor, "more than 3 segments");
  (void)borrower.retire(2);
  borrower.add(5, {10});
  EXPECT_ERROR(borrower.add(6, {10}), Errc::corrupt_descriptor, "more than 3 segments");
}

// A segment of several parts brings many files, which stay open until its first buffer is taken.
TEST(Borrower, KeepsFewFilesOfSegmentsOfSeveralParts) {
  Borrower<Memory> borrower(10);
  constexpr auto too_many = "more than 256 files";
  borrower.add(1, {10}, 250);
  EXPECT_ERROR(borrower.add(2, {10}, 7), Errc::corrupt_descriptor, too_many);
  borrower.add(2, {10}, 6);
  borrower.add(3, {10});  // the window is the limit of those
  EXPECT_ERROR(borrower.add(4, {10}, 2), Errc::corrupt_descriptor, too_many);
  for (const std::uint32_t segment : {1, 1, 3}) {  // the first one counts once
    (void)arrive(borrower, grant_of(segment, 0, 1));
    borrower.take(segment);
  }
  EXPECT_ERROR(borrower.add(4, {10}, 251), Errc::corrupt_descriptor, too_many);
  borrower.add(4, {10}, 250);
  (void)borrower.retire(2);
  (void)borrower.retire(1);  // which no longer counts
  EXPECT_ERROR(borrower.add(5, {10}, 7), Errc::corrupt_descriptor, too_many);
  borrower.add(5, {10}, 6);
}

// The files of a segment stay open as long as one of its buffers is to be taken. A peer that could end such segments
// would have this process keep ever more of them.
TEST(Borrower, KeepsASegmentWhoseBuffersNobodyHasTaken) {
  Borrower<Memory> borrower(10);
  borrower.add(1, {10}, 200);
  borrower.add(2, {10});
  for (int i = 0; i < 2; ++i) (void)arrive(borrower, grant_of(1, 0, 1));
  EXPECT_ERROR(borrower.retire(1), Errc::corrupt_descriptor, "segment 1 ends while buffers of it are lent");
  borrower.take(1);
  EXPECT_ERROR(borrower.retire(1), Errc::corrupt_descriptor, "segment 1 ends while buffers of it are lent");
  EXPECT_EQ(borrower.retire(2).bytes, 10U);
  borrower.take(1);
  EXPECT_EQ(borrower.retire(1).bytes, 10U);
  borrower.add(3, {10});
  (void)arrive(borrower, grant_of(3, 0, 1));
  EXPECT_EQ(borrower.end().size(), 1U) << "the peer is gone";
  borrower.take(3);
  EXPECT_EQ(borrower.arrived(), 0U);
}

// The sender may send nothing more of this sort until it knows.
TEST(Borrower, OwesWhatItOpenedOfSegmentsOfSeveralPartsAtOnce) {
  Borrower<Memory> borrower(100);
  borrower.add(1, {10});
  borrower.add(2, {10}, 2);
  const auto take = [&](std::uint32_t segment) {
    (void)arrive(borrower, grant_of(segment, 0, 1));
    borrower.take(segment);
    return borrower.owes_much();
  };
  EXPECT_FALSE(take(1)) << "it is collected";
  EXPECT_TRUE(take(2));
  PacketWriter lost, sent;
  borrower.tell(lost);
  borrower.untold();
  EXPECT_TRUE(borrower.owes_much());
  borrower.tell(sent);
  EXPECT_EQ(sent.bytes().size(), lost.bytes().size());
  borrower.add(3, {10}, 3);
  EXPECT_TRUE(take(3)) << "while it is told";
  borrower.told();
  EXPECT_TRUE(borrower.owes_much());
  PacketWriter rest;
  borrower.tell(rest);
  borrower.told();
  EXPECT_FALSE(borrower.owes_much());
  EXPECT_FALSE(take(2)) << "the segment is open";
}

/// Sends buffers, each in a segment of its own with so many parts, to a receiver that keeps them all. What the receiver
/// owes is told when a connection would.
class Keeping {
 public:
  explicit Keeping(std::size_t parts) : parts_(parts) { lender_.open_window(window); }
  bool send() {
    if (lender_.room() == 0 || !lender_.takes_files(parts_)) return false;
    lender_.tell_files(parts_);
    (void)lender_.lend(0);
    borrower_.add(++sent_, {10}, parts_);
    borrower_.arrive(sent_);
    return true;
  }
  bool take() {
    if (borrower_.arrived() == 0) return false;
    borrower_.take(++taken_);
    if (!borrower_.owes_much()) return true;
    PacketWriter packet;
    borrower_.tell(packet);
    borrower_.told();
    PacketReader reader(packet.bytes(), 0);
    const auto message = reader.next();
    lender_.credit(std::get<Credit>(*message).buffers);
    return true;
  }
  [[nodiscard]] std::uint32_t taken() const noexcept { return taken_; }

 private:
  static constexpr std::uint32_t window = 256;
  const std::size_t parts_;
  Lender<int> lender_;
  Borrower<Memory> borrower_{window};
  std::uint32_t sent_ = 0, taken_ = 0;
};

TEST(Halves, DoNotStandStillWithSegmentsOfSeveralParts) {
  constexpr std::uint32_t enough = 1000;
  for (const std::size_t parts : {2, 3, 4, 20, 250}) {
    Keeping one_by_one(parts), ahead(parts);
    while (one_by_one.taken() < enough) ASSERT_TRUE(one_by_one.send() && one_by_one.take()) << parts << " parts";
    for (bool goes_on = true; goes_on && ahead.taken() < enough;) {
      goes_on = false;
      while (ahead.send()) goes_on = true;
      while (ahead.take()) goes_on = true;
      ASSERT_TRUE(goes_on) << parts << " parts, after " << ahead.taken() << " buffers";
    }
  }
}

TEST(Borrower, OfNothingTakesNothing) {
  Borrower<Memory> borrower(1, Borrows::nothing);
  EXPECT_ERROR(borrower.add(1, {10}), Errc::corrupt_descriptor, "nothing is borrowed");
  EXPECT_ERROR(borrower.add_page(), Errc::corrupt_descriptor, "nothing is borrowed");
  EXPECT_EQ(borrower.segments(), 0U);
}

TEST(Borrower, WaitsForPointsOfThePageThatItWasToldOf) {
  Borrower<Memory> borrower(8);
  borrower.add(1, {10});
  const Grant waiting{1, 1, 0, 1, {3, 1}, {}};
  EXPECT_ERROR(arrive(borrower, waiting), Errc::corrupt_descriptor, "a page of which it never told");
  EXPECT_EQ(borrower.arrived(), 0U);
  borrower.add_page();
  EXPECT_EQ(arrive(borrower, waiting).bytes, 10U);
  EXPECT_ERROR(borrower.add_page(), Errc::corrupt_descriptor, "a second page");
}

TEST(Borrower, TellsOfEachEndOnce) {
  Borrower<Memory> borrower(8);
  borrower.add(1, {10});
  for (int i = 0; i < 3; ++i) (void)arrive(borrower, grant_of(1, 0, 1));
  for (int i = 0; i < 3; ++i) borrower.take(1);
  borrower.end(11);
  PacketWriter lost, sent, rest;
  borrower.tell(lost);
  borrower.untold();
  borrower.tell(sent);
  borrower.end(12);  // while the packet is on its way
  borrower.told();
  borrower.tell(rest);
  borrower.told();
  EXPECT_BYTES(lost.bytes(), sent.bytes());
  PacketReader first(sent.bytes(), 0), second(rest.bytes(), 0);
  EXPECT_EQ(std::get<Credit>(*first.next()).buffers, 3U);
  EXPECT_EQ(std::get<Releases>(*first.next())[0], 11U);
  EXPECT_FALSE(first.next());
  EXPECT_EQ(std::get<Releases>(*second.next())[0], 12U);
  EXPECT_FALSE(second.next());
  PacketWriter nothing;
  borrower.tell(nothing);
  EXPECT_TRUE(nothing.empty());
}

}  // namespace
}  // namespace weir::test
