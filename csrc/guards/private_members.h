// Access to private fields of torch's classes. Its accessors are calls into other libraries, some with look-ups by
// hash, and guards read the fields at every call of compiled code. C++ lets anyone name a private member in an explicit
// instantiation of a template.
#pragma once

// After this, `object.*revealed(Tag{})` is the member `type::name` of an object.
#define DL_REVEAL(Tag, type, name)                         \
  struct Tag {                                             \
    friend constexpr auto revealed(Tag);                   \
  };                                                       \
  template <auto member>                                   \
  struct Tag##Member {                                     \
    friend constexpr auto revealed(Tag) { return member; } \
  };                                                       \
  template struct Tag##Member<&type::name>
