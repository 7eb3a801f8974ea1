import Image from "next/image";
import Link from "next/link";
import Reader from "./Reader";

export default function Home() {
  return (
    <main>
      <Image src="/cover.svg" alt="" width={120} height={80} priority />
      <h1>Magazine</h1>
      <Link href="/issue/">This issue</Link>
      <Reader />
    </main>
  );
}
