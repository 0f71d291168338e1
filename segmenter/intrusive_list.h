// Doubly linked lists of dense ids through links in their records: an element is taken out of its
// list, and put into another, in constant time and without allocation. An element is in at most one
// list of a link.
//
// Thread-safety: that of the records.
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

template <typename Record>
void PushFront(std::vector<Record>& records, Link Record::*link, LinkList& list, uint32_t i) {
  records[i].*link = Link{kNoLink, list.head};
  if (list.head != kNoLink) (records[list.head].*link).prev = i;
  list.head = i;
  ++list.size;
}

template <typename Record>
void Remove(std::vector<Record>& records, Link Record::*link, LinkList& list, uint32_t i) {
  const Link at = records[i].*link;
  (at.prev == kNoLink ? list.head : (records[at.prev].*link).next) = at.next;
  if (at.next != kNoLink) (records[at.next].*link).prev = at.prev;
  --list.size;
}

// The elements of a list as ids. Taking out the element that an iterator stands on invalidates the
// iterator.
template <typename IdType, typename Record>
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
    iterator(const std::vector<Record>* records, Link Record::*link, uint32_t at)
        : records_(records), link_(link), at_(at) {}
    IdType operator*() const { return IdType(at_); }
    iterator& operator++() {
      at_ = ((*records_)[at_].*link_).next;
      return *this;
    }
    iterator operator++(int) {
      iterator old = *this;
      ++*this;
      return old;
    }
    friend bool operator==(iterator a, iterator b) { return a.at_ == b.at_; }

   private:
    const std::vector<Record>* records_ = nullptr;
    Link Record::*link_ = nullptr;
    uint32_t at_ = kNoLink;
  };
  IdRange(const std::vector<Record>* records, Link Record::*link, LinkList list)
      : records_(records), link_(link), list_(list) {}
  iterator begin() const { return {records_, link_, list_.head}; }
  iterator end() const { return {records_, link_, kNoLink}; }
  uint32_t size() const { return list_.size; }
  bool empty() const { return list_.size == 0; }

 private:
  const std::vector<Record>* records_;
  Link Record::*link_;
  LinkList list_;
};

}  // namespace seam
