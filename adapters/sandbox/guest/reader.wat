;; The guest that reads. It knows the directory that it was given (descriptor 3) and nothing else.
;;
;; Memory: 0 an I/O vector, 8 a count, 12 a descriptor, 64 a file's description, 4096 a path, 65536 the buffer (256 KiB).
;; Functions return an errno of WASI, 0 for success, and those that yield bytes return their number after it.
(module
  (import "wasi_snapshot_preview1" "path_open"
    (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_filestat_get"
    (func $path_filestat_get (param i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_filestat_get" (func $fd_filestat_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_readdir" (func $fd_readdir (param i32 i32 i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_close" (func $fd_close (param i32) (result i32)))

  (memory (export "memory") 5 5)
  ;; The open file or directory; -1 for none.
  (global $open (mut i32) (i32.const -1))

  ;; Opens a path in place of what is open, with open flags and rights.
  (func $reopen (param $length i32) (param $flags i32) (param $rights i64) (result i32)
    (local $errno i32)
    (if (i32.ne (global.get $open) (i32.const -1))
      (then
        (drop (call $fd_close (global.get $open)))
        (global.set $open (i32.const -1))))
    (local.set $errno
      (call $path_open (i32.const 3) (i32.const 1) (i32.const 4096) (local.get $length) (local.get $flags)
        (local.get $rights) (i64.const 0) (i32.const 0) (i32.const 12)))
    (if (i32.eqz (local.get $errno))
      (then (global.set $open (i32.load (i32.const 12)))))
    (local.get $errno))

  ;; Describes what is at the path; with 1 as flags a link stands for what it points at.
  (func (export "stat") (param $length i32) (param $flags i32) (result i32)
    (call $path_filestat_get (i32.const 3) (local.get $flags) (i32.const 4096) (local.get $length) (i32.const 64)))

  ;; Opens the file at the path and describes it. 0x200002: read, describe.
  (func (export "open") (param $length i32) (result i32)
    (local $errno i32)
    (if (local.tee $errno (call $reopen (local.get $length) (i32.const 0) (i64.const 0x200002)))
      (then (return (local.get $errno))))
    (call $fd_filestat_get (global.get $open) (i32.const 64)))

  ;; Fills the buffer with the next bytes of the file, up to `capacity` or the file's end.
  (func (export "read") (param $capacity i32) (result i32 i32)
    (local $errno i32)
    (local $length i32)
    (block $end
      (loop $more
        (br_if $end (i32.ge_u (local.get $length) (local.get $capacity)))
        (i32.store (i32.const 0) (i32.add (i32.const 65536) (local.get $length)))
        (i32.store (i32.const 4) (i32.sub (local.get $capacity) (local.get $length)))
        (br_if $end
          (local.tee $errno (call $fd_read (global.get $open) (i32.const 0) (i32.const 1) (i32.const 8))))
        (br_if $end (i32.eqz (i32.load (i32.const 8))))
        (local.set $length (i32.add (local.get $length) (i32.load (i32.const 8))))
        (br_if $more (i32.lt_u (local.get $length) (local.get $capacity)))))
    (local.get $errno)
    (local.get $length))

  ;; Opens the directory at the path. 2: must be a directory; 0x4000: list.
  (func (export "open_dir") (param $length i32) (result i32)
    (call $reopen (local.get $length) (i32.const 2) (i64.const 0x4000)))

  ;; Fills the buffer with the entries of the directory after a cookie; a full buffer may end in half an entry.
  (func (export "read_dir") (param $cookie i64) (result i32 i32)
    (local $errno i32)
    (local.set $errno
      (call $fd_readdir (global.get $open) (i32.const 65536) (i32.const 262144) (local.get $cookie) (i32.const 8)))
    (local.get $errno)
    (i32.load (i32.const 8))))
