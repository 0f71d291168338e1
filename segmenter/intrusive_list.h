// Doubly linked lists of dense ids through link arrays: an element is taken out of its list, and
// put into another, in constant time and without allocation. An element is in at most one list of a
// link array.
//
// Thread-safety: that of the arrays.
#pragma once

#include <cstdint>
#include <iterator>
#include <vector>

namespace seam {

inline constexpr uint32_t kNoLink = 0xffffffffu;

struct Link {
  uint32_t prev = kNoLink, next = kNoLink;
};

struct LinkList {
  uint32_t head = kNoLink;
  uint32_t size = 0;
};

inline void PushFront(std::vector<Link>& links, LinkList& list, uint32_t i) {
  links[i] = Link{kNoLink, list.head};
  if (list.head != kNoLink) links[list.head].prev = i;
  list.head = i;
  ++list.size;
}

inline void Remove(std::vector<Link>& links, LinkList& list, uint32_t i) {
  const Link link = links[i];
  if (link.prev == kNoLink) {
    list.head = link.next;
  } else {
    links[link.prev].next = link.next;
  }
  if (link.next != kNoLink) links[link.next].prev = link.prev;
  --list.size;
}

// The elements of a list as ids. Taking out the element that an iterator stands on invalidates the
// iterator.
template <typename IdType>
class IdRange {
 public:
  class iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = IdType;
    using difference_type = std::ptrdiff_t;
    using pointer = const IdType*;
    using reference = IdType;
    iterator() = default;
    iterator(const std::vector<Link>* links, uint32_t at) : links_(links), at_(at) {}
    IdType operator*() const { return IdType(at_); }
    iterator& operator++() {
      at_ = (*links_)[at_].next;
      return *this;
    }
    iterator operator++(int) {
      iterator old = *this;
      ++*this;
      return old;
    }
    friend bool operator==(iterator a, iterator b) { return a.at_ == b.at_; }

   private:
    const std::vector<Link>* links_ = nullptr;
    uint32_t at_ = kNoLink;
  };
  IdRange(const std::vector<Link>* links, LinkList list) : links_(links), list_(list) {}
  iterator begin() const { return {links_, list_.head}; }
  iterator end() const { return {links_, kNoLink}; }
  uint32_t size() const { return list_.size; }
  bool empty() const { return list_.size == 0; }

 private:
  const std::vector<Link>* links_;
  LinkList list_;
};

}  // namespace seam
