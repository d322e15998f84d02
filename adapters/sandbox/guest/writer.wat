;; The guest that changes files. It knows the directory that it was given (descriptor 3) and nothing else.
;;
;; Memory: 0 an I/O vector, 8 a count, 12 a descriptor, 64 a file's description, 4096 a path, 16384 a second path,
;; 65536 the buffer (256 KiB). Functions return an errno of WASI, 0 for success; `create` returns a descriptor after it.
(module
  (import "wasi_snapshot_preview1" "path_open"
    (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_filestat_get"
    (func $path_filestat_get (param i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_create_directory"
    (func $path_create_directory (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_link"
    (func $path_link (param i32 i32 i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_rename" (func $path_rename (param i32 i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_unlink_file" (func $path_unlink_file (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_remove_directory"
    (func $path_remove_directory (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_sync" (func $fd_sync (param i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_close" (func $fd_close (param i32) (result i32)))
  ;; What WASI lacks: a rename that never replaces.
  (import "satchel" "path_rename_new" (func $path_rename_new (param i32 i32 i32 i32 i32 i32) (result i32)))

  (memory (export "memory") 5 5)
  ;; The directory from which paths count.
  (global $dir (mut i32) (i32.const 3))
  ;; The new file; -1 for none.
  (global $file (mut i32) (i32.const -1))

  ;; Opens the directory at the path. 2: must be a directory; 0x4000: list.
  (func $open_dir (param $length i32) (result i32)
    (call $path_open (global.get $dir) (i32.const 1) (i32.const 4096) (local.get $length) (i32.const 2)
      (i64.const 0x4000) (i64.const 0) (i32.const 0) (i32.const 12)))

  (func (export "stat") (param $length i32) (param $flags i32) (result i32)
    (call $path_filestat_get (global.get $dir) (local.get $flags) (i32.const 4096) (local.get $length)
      (i32.const 64)))

  ;; Returns when the names in the directory at the path are on disk.
  (func $sync_dir (export "sync_dir") (param $length i32) (result i32)
    (local $errno i32)
    (if (local.tee $errno (call $open_dir (local.get $length)))
      (then (return (local.get $errno))))
    (local.set $errno (call $fd_sync (i32.load (i32.const 12))))
    (drop (call $fd_close (i32.load (i32.const 12))))
    (local.get $errno))

  ;; Creates the directory of a path's first `length` bytes and makes its name durable. 20: it exists.
  (func $create_dir (param $length i32) (param $parent_length i32) (result i32)
    (local $errno i32)
    (local.set $errno (call $path_create_directory (global.get $dir) (i32.const 4096) (local.get $length)))
    (if (i32.eq (local.get $errno) (i32.const 20))
      (then (return (i32.const 0))))
    (if (local.get $errno)
      (then (return (local.get $errno))))
    (call $sync_dir (local.get $parent_length)))

  ;; Whether there is a directory at the path.
  (func $check_dir (param $length i32) (result i32)
    (local $errno i32)
    (local.set $errno (call $open_dir (local.get $length)))
    (if (i32.eqz (local.get $errno))
      (then (drop (call $fd_close (i32.load (i32.const 12))))))
    (local.get $errno))

  ;; Creates the directory at the path, after its parents. 44: there is nothing; 47: a slash.
  (func (export "create_dirs") (param $length i32) (result i32)
    (local $errno i32)
    (local $end i32)
    (local $parent_end i32)
    (if (i32.ne (local.tee $errno (call $check_dir (local.get $length))) (i32.const 44))
      (then (return (local.get $errno))))
    (loop $next
      (local.set $end (i32.add (local.get $end) (i32.const 1)))
      (if (i32.lt_u (local.get $end) (local.get $length))
        (then
          (br_if $next
            (i32.ne (i32.load8_u (i32.add (i32.const 4096) (local.get $end))) (i32.const 47)))))
      (if (local.tee $errno (call $create_dir (local.get $end) (local.get $parent_end)))
        (then (return (local.get $errno))))
      (local.set $parent_end (local.get $end))
      (br_if $next (i32.lt_u (local.get $end) (local.get $length))))
    (call $check_dir (local.get $length)))

  ;; Lets paths count from the directory at the path.
  (func (export "enter") (param $length i32) (result i32)
    (local $errno i32)
    (if (local.tee $errno (call $open_dir (local.get $length)))
      (then (return (local.get $errno))))
    (if (i32.ne (global.get $dir) (i32.const 3))
      (then (drop (call $fd_close (global.get $dir)))))
    (global.set $dir (i32.load (i32.const 12)))
    (i32.const 0))

  ;; Creates a file. 5: create, and fail if there is anything; 0x42: read, write.
  (func (export "create") (param $length i32) (result i32 i32)
    (local $errno i32)
    (if (i32.ne (global.get $file) (i32.const -1))
      (then
        (drop (call $fd_close (global.get $file)))
        (global.set $file (i32.const -1))))
    (local.set $errno
      (call $path_open (global.get $dir) (i32.const 0) (i32.const 4096) (local.get $length) (i32.const 5)
        (i64.const 0x42) (i64.const 0) (i32.const 0) (i32.const 12)))
    (if (i32.eqz (local.get $errno))
      (then (global.set $file (i32.load (i32.const 12)))))
    (local.get $errno)
    (global.get $file))

  ;; Appends the first `length` bytes of the buffer to the file. 29: the disk took none of them.
  (func (export "write") (param $length i32) (result i32)
    (local $errno i32)
    (local $written i32)
    (block $end
      (loop $more
        (br_if $end (i32.ge_u (local.get $written) (local.get $length)))
        (i32.store (i32.const 0) (i32.add (i32.const 65536) (local.get $written)))
        (i32.store (i32.const 4) (i32.sub (local.get $length) (local.get $written)))
        (br_if $end
          (local.tee $errno (call $fd_write (global.get $file) (i32.const 0) (i32.const 1) (i32.const 8))))
        (if (i32.eqz (i32.load (i32.const 8)))
          (then (return (i32.const 29))))
        (local.set $written (i32.add (local.get $written) (i32.load (i32.const 8))))
        (br_if $more (i32.lt_u (local.get $written) (local.get $length)))))
    (local.get $errno))

  (func (export "sync") (result i32)
    (call $fd_sync (global.get $file)))

  (func (export "link") (param $from_length i32) (param $to_length i32) (result i32)
    (call $path_link (global.get $dir) (i32.const 0) (i32.const 4096) (local.get $from_length)
      (global.get $dir) (i32.const 16384) (local.get $to_length)))

  (func (export "rename") (param $from_length i32) (param $to_length i32) (result i32)
    (call $path_rename (global.get $dir) (i32.const 4096) (local.get $from_length)
      (global.get $dir) (i32.const 16384) (local.get $to_length)))

  (func (export "rename_new") (param $from_length i32) (param $to_length i32) (result i32)
    (call $path_rename_new (global.get $dir) (i32.const 4096) (local.get $from_length)
      (global.get $dir) (i32.const 16384) (local.get $to_length)))

  (func (export "remove_file") (param $length i32) (result i32)
    (call $path_unlink_file (global.get $dir) (i32.const 4096) (local.get $length)))

  (func (export "remove_dir") (param $length i32) (result i32)
    (call $path_remove_directory (global.get $dir) (i32.const 4096) (local.get $length))))
