// SPDX-License-Identifier: Apache-2.0
#pragma once
// All rows that every allocator of every backend has.

#include "pool/churn.hpp"
#include "pool/elsewhere.hpp"
#include "pool/growth.hpp"
#include "pool/orders.hpp"
#include "pool/pairs.hpp"
#include "pool/random.hpp"
#include "pool/tails.hpp"
#include "pool/threads.hpp"

namespace weir::bench {

template <Allocator A>
void add_common(const Subject<A>& subject, const Device& device) {
  add_pairs(subject);
  add_churn(subject);
  add_threads(subject);
  add_elsewhere(subject);
  add_random(subject, device);
  add_growth(subject);
  add_orders(subject);
  add_tails(subject);
}

}  // namespace weir::bench
